"""Two ranks, each on a GPU of its own: NCCL sums what both have scaled, and each goes on with the sum."""

import os

import torch
import torch.distributed as distributed

rank = int(os.environ["RANK"])
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
distributed.init_process_group("nccl", device_id=device)
values = torch.arange(100000, device=device, dtype=torch.float32) % 1000
for _ in range(3):
    scaled = values * (rank + 1)
    distributed.all_reduce(scaled)
    halved = torch.relu(scaled - 500.0)
torch.cuda.synchronize()
expected = torch.relu((torch.arange(100000, dtype=torch.float32) % 1000) * 3 - 500.0)
assert torch.equal(halved.cpu(), expected)
distributed.destroy_process_group()
if rank == 0:
    print("torch_distributed: ok")
