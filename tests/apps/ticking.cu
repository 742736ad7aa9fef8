// A host thread counts in managed memory every millisecond while a kernel runs that does not use it.
#include "check.cuh"
#include <atomic>
#include <chrono>
#include <thread>

// The rounds take long enough to wake a sleeping thread meanwhile, even on a busy machine.
__global__ void churn(unsigned *values, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned value = values[i];
    for (int round = 0; round < rounds; ++round)
        value = value * 1664525u + 1013904223u;
    values[i] = value;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 100000));
    // 20,000 take long in software, but not on a GPU.
    int rounds = argc > 2 ? std::atoi(argv[2]) : 20000;
    volatile unsigned *tick;
    CUDA_OK(cudaMallocManaged(const_cast<unsigned **>(&tick), 4096));
    *tick = 0;
    std::atomic<bool> started{false}, stop{false};
    std::thread ticker([&] {
        for (; !stop; started = true) {
            *tick = *tick + 1;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    });
    while (!started)
        std::this_thread::yield();
    unsigned expected = 0;
    for (int round = 0; round < rounds; ++round)
        expected = expected * 1664525u + 1013904223u;
    bool right;
    {
        DeviceArray<unsigned> values(n);
        values.clear();
        churn<<<blocks_for(n, 128), 128>>>(values.get(), n, rounds);
        LAUNCH_OK();
        stop = true;
        ticker.join();
        right = values.download().back() == expected;
    }
    CUDA_OK(cudaFree(const_cast<unsigned *>(tick)));
    return finish("ticking", right, n);
}
