// The declarations shared by the units.
#pragma once

struct Log {
    int *entries;
    int *count;
};

extern __device__ Log shared_log;
extern __device__ int log_entries[64];

__device__ void note(int value);
__device__ int forward(int value);
__device__ int backward(int value);
void launch_forward(int *values, int n);
void launch_backward(int *values, int n);
