"""A kernel that CuPy compiles with NVRTC, with a variable of its module."""

import cupy

module = cupy.RawModule(
    code=r"""
extern "C" {
__device__ int calls = 0;
__constant__ float factor[1] = {3.0f};
__global__ void cupy_scale(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) calls += 1;
    for (; i < n; i += gridDim.x * blockDim.x) y[i] = factor[0] * x[i];
}
}
"""
)
kernel = module.get_function("cupy_scale")
x = cupy.arange(100_000, dtype=cupy.float32)
y = cupy.zeros_like(x)
kernel((64,), (256,), (x, y, cupy.int32(x.size)))
assert bool((y == 3 * x).all())
print("cupy_raw: ok")
