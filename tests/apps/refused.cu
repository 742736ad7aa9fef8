// Launches that the driver refuses repeatedly, over memory that changes each time, with good launches before and
// after.
#include "check.cuh"

template <int> __global__ void advance(unsigned *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = values[i] * 1664525u + 1013904223u;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 250000));
    std::vector<unsigned> host(n);
    DeviceArray<unsigned> values(n);
    auto fill = [&](unsigned seed) {
        for (int i = 0; i < n; ++i)
            host[i] = scramble(seed * 1000003u + i);
        CUDA_OK(cudaMemcpy(values.get(), host.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
    };
    bool right = true;
    auto refused = [&] { right = right && cudaGetLastError() != cudaSuccess; };
    // A block with too many threads, always.
    for (unsigned round = 0; round < 20; ++round) {
        fill(round);
        advance<0><<<4, 4096>>>(values.get(), n);
        refused();
    }
    // Refused once, then repaired: the same launch after raising its limit of shared memory.
    constexpr unsigned LARGE = 64 << 10;
    unsigned blocks = blocks_for(n, 128);
    advance<1><<<blocks, 128, LARGE>>>(values.get(), n);
    refused();
    CUDA_OK(cudaFuncSetAttribute(advance<1>, cudaFuncAttributeMaxDynamicSharedMemorySize, LARGE));
    fill(100);
    advance<1><<<blocks, 128, LARGE>>>(values.get(), n);
    LAUNCH_OK();
    // Refused many times. The first good launch then shows that it works, and the second is recorded.
    for (unsigned round = 0; round < 10; ++round) {
        advance<2><<<blocks, 128, LARGE>>>(values.get(), n);
        refused();
    }
    CUDA_OK(cudaFuncSetAttribute(advance<2>, cudaFuncAttributeMaxDynamicSharedMemorySize, LARGE));
    for (unsigned round = 0; round < 3; ++round)
        advance<2><<<blocks, 128, LARGE>>>(values.get(), n);
    LAUNCH_OK();
    std::vector<unsigned> found = values.download();
    for (int i = 0; i < n; ++i) {
        unsigned expected = scramble(100 * 1000003u + i);
        for (int round = 0; round < 4; ++round)
            expected = expected * 1664525u + 1013904223u;
        right = right && found[i] == expected;
    }
    return finish("refused", right, n);
}
