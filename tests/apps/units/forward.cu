// One of two units with private constants, functions and a kernel of the same names.
#include "../check.cuh"
#include "shared.cuh"

static __constant__ int step = 1;

static __device__ int advance(int value) { return value + step; }

__device__ int forward(int value) { return advance(value) * 2; }

namespace {
__global__ void sweep(int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    values[i] = backward(advance(values[i]));
    note(values[i]);
}
} // namespace

void launch_forward(int *values, int n) {
    sweep<<<blocks_for(n, 128), 128>>>(values, n);
    LAUNCH_OK();
}
