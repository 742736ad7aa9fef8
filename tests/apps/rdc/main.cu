// Relocatable device code: the kernel is here, the functions and variables that it uses are in device.cu.
#include "../check.cuh"
#include "device.cuh"

static __device__ long local_step(long value) { return value + 1000; }

__global__ void rdc(long *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    long value = values[i];
    for (int round = 0; round < 4; ++round)
        value = mix(value, round);
    values[i] = local_step(value);
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 3000));
    std::vector<long> values(n);
    for (int i = 0; i < n; ++i)
        values[i] = i - 100;
    DeviceArray<long> device_values(values);
    rdc<<<blocks_for(n, 128), 128>>>(device_values.get(), n);
    LAUNCH_OK();
    unsigned long long counted = 0;
    CUDA_OK(cudaMemcpyFromSymbol(&counted, calls, sizeof counted));
    std::vector<long> result = device_values.download();
    const int host_table[4] = {3, 5, 7, 11};
    bool right = counted == 100 + 4ull * n;
    for (int i = 0; i < n; ++i) {
        long value = values[i];
        for (int round = 0; round < 4; ++round)
            value = ((value * host_table[round]) ^ 0x55) + round;
        right = right && result[i] == value + 1000;
    }
    return finish("rdc", right, n);
}
