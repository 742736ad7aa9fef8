"""A Triton kernel, loaded as machine code and launched through cuLaunchKernelEx."""

import torch
import triton
import triton.language as tl


@triton.jit
def triton_add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


x = torch.rand(50_000, device="cuda")
y = torch.rand(50_000, device="cuda")
out = torch.empty_like(x)
triton_add[(triton.cdiv(50_000, 1024),)](x, y, out, 50_000, BLOCK=1024)
torch.cuda.synchronize()
assert torch.equal(out, x + y)
print("triton_kernel: ok")
