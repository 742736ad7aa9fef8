"""PyTorch: a tensor of this process is changed by another one, which got it through a queue."""

import torch
import torch.multiprocessing


def other(queue) -> None:
    x = queue.get()
    x.mul_(2)
    torch.cuda.synchronize()


if __name__ == "__main__":
    context = torch.multiprocessing.get_context("spawn")
    x = torch.arange(100_000, dtype=torch.float32, device="cuda")
    queue = context.Queue()
    process = context.Process(target=other, args=(queue,))
    process.start()
    queue.put(x)
    process.join()
    assert process.exitcode == 0
    assert torch.equal(x.cpu(), 2 * torch.arange(100_000, dtype=torch.float32))
    print("torch_sharing: ok")
