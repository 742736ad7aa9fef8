// `instances N`: seconds for N launches of one kernel, each a different instance.
#include "../apps/check.cuh"

#include <chrono>

__global__ void add(int *sum, int step) {
    sum[0] += step;
}

int main(int argc, char **argv) {
    int count = static_cast<int>(size_argument(argc, argv, 2000));
    int *sum;
    CUDA_OK(cudaMalloc(&sum, 4096));
    CUDA_OK(cudaMemset(sum, 0, 4096));
    auto start = std::chrono::steady_clock::now();
    for (int step = 0; step < count; ++step)
        add<<<1, 1>>>(sum, step);
    LAUNCH_OK();
    std::printf("launches_s %.3f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    CUDA_OK(cudaFree(sum));
}
