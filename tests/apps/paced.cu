// A kernel launched in two alternating sizes, with a number that changes each time and a pause in between, and a kernel
// with its own variable, which counts launches:
//     paced [LAUNCHES] [PAUSE_US] [FILE]
// It ends early when FILE appears. It prints the time of a launch to standard error: the median, and the longest except
// for the first.
#include "check.cuh"

#include <algorithm>
#include <chrono>
#include <unistd.h>

__global__ void mix(unsigned *values, int n, unsigned rounds, unsigned number) {
    int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        for (unsigned round = 0; round < rounds; ++round)
            values[i] = (values[i] ^ values[i] >> 9) * 2654435761u + number;
}

__device__ unsigned counted;

__global__ void count(int by) { counted += by; }

int main(int argc, char **argv) {
    unsigned launches = static_cast<unsigned>(size_argument(argc, argv, 64));
    unsigned pause = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 0;
    const char *file = argc > 3 ? argv[3] : nullptr;
    constexpr int sizes[2] = {1000, 600};
    constexpr unsigned rounds = 3;
    std::vector<unsigned> expected(sizes[0]);
    for (int i = 0; i < sizes[0]; ++i)
        expected[i] = scramble(i);
    DeviceArray<unsigned> values(expected);
    std::vector<double> times;
    for (unsigned launch = 0; launch < launches && (!file || access(file, F_OK) != 0); ++launch) {
        int n = sizes[launch % 2];
        auto begin = std::chrono::steady_clock::now();
        mix<<<4, 64>>>(values.get(), n, rounds, launch);
        std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
        times.push_back(spent.count());
        count<<<1, 1>>>(2);
        CUDA_OK(cudaGetLastError());
        for (int i = 0; i < n; ++i)
            for (unsigned round = 0; round < rounds; ++round)
                expected[i] = (expected[i] ^ expected[i] >> 9) * 2654435761u + launch;
        if (pause)
            usleep(pause);
    }
    CUDA_OK(cudaDeviceSynchronize());
    unsigned sum = 0;
    CUDA_OK(cudaMemcpyFromSymbol(&sum, counted, sizeof sum));
    bool right = values.download() == expected && sum == 2 * times.size();
    if (times.size() > 1) {
        std::sort(times.begin() + 1, times.end());
        std::fprintf(stderr, "launches %zu first_us %.1f median_us %.2f longest_us %.1f\n", times.size(), times[0],
                     times[times.size() / 2], times.back());
    }
    return finish("paced", right, sizes[0]);
}
