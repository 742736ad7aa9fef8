// The declarations shared by both translation units.
#pragma once

extern __device__ unsigned long long calls;
extern __constant__ int table[4];
__device__ long mix(long value, int round);
