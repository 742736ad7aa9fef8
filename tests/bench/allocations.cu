// `allocations`: median time of cudaMalloc plus cudaFree in µs, by size; alone, and among 1000 live allocations.
#include "../apps/check.cuh"

#include <algorithm>
#include <chrono>

static double pair_us(size_t bytes) {
    std::vector<double> times;
    int count = bytes > (1 << 20) ? 50 : 500;
    for (int i = 0; i < count; ++i) {
        auto begin = std::chrono::steady_clock::now();
        void *memory;
        CUDA_OK(cudaMalloc(&memory, bytes));
        CUDA_OK(cudaFree(memory));
        times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() * 1e6);
    }
    std::nth_element(times.begin(), times.begin() + count / 2, times.end());
    return times[count / 2];
}

int main() {
    CUDA_OK(cudaFree(nullptr));
    std::vector<void *> others;
    for (const char *when : {"alone", "among"}) {
        for (size_t kib : {1, 16, 64, 256, 1024, 2048, 4096, 16384, 65536})
            std::printf("%s_%zuKiB_us %.2f\n", when, kib, pair_us(kib << 10));
        for (int i = 0; i < 1000; ++i) {
            others.push_back(nullptr);
            CUDA_OK(cudaMalloc(&others.back(), 4096));
        }
    }
    for (void *other : others)
        CUDA_OK(cudaFree(other));
}
