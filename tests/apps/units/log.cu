// The variables that both other units use. One of them contains the addresses of two others.
#include "shared.cuh"

__device__ int log_entries[64];
static __device__ int state = 5;
__device__ Log shared_log = {log_entries, &state};

__device__ void note(int value) { atomicAdd(&shared_log.entries[value & 63], atomicAdd(shared_log.count, 1) >= 5); }
