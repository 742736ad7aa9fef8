// The different versions in both libraries of a kernel, a device variable and a function with the same names.
#pragma once

#ifndef FACTOR
#error "FACTOR tells the two libraries apart"
#endif

static __device__ unsigned long long total;
static __constant__ int factor = FACTOR;

static __device__ int scaled(int value) { return value * factor; }

__global__ void scale(int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    values[i] = scaled(values[i]) + FACTOR;
    atomicAdd(&total, static_cast<unsigned long long>(FACTOR));
}

static unsigned long long scale_all(int *device_values, int n) {
    scale<<<blocks_for(n, 128), 128>>>(device_values, n);
    LAUNCH_OK();
    unsigned long long sum = 0;
    CUDA_OK(cudaMemcpyFromSymbol(&sum, total, sizeof sum));
    return sum;
}
