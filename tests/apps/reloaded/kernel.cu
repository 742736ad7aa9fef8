// A kernel that is loaded from memory, built with several factors.
extern "C" __global__ void multiply(unsigned long long *values, unsigned long long seed, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        values[i] = seed * FACTOR + i;
}
