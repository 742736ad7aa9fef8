// Managed memory that a host thread keeps writing while a kernel runs that does not use it: it never has a consistent
// state.
#include "check.cuh"
#include <atomic>
#include <thread>

__global__ void advance(unsigned *values, int count, unsigned step) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count)
        values[index] = values[index] * 1664525u + step;
}

int main() {
    const int count = 10000, words = 4 << 20;
    DeviceArray<unsigned> values(count);
    values.clear();
    unsigned *pages = nullptr;
    CUDA_OK(cudaMallocManaged(&pages, words * sizeof *pages));
    std::atomic<bool> started{false}, stop{false};
    std::thread writer([&] {
        for (unsigned value = 1; !stop; ++value, started = true)
            for (int word = 0; word < words && !stop; word += 1024)
                static_cast<volatile unsigned *>(pages)[word] = value + word;
    });
    while (!started)
        std::this_thread::yield();
    unsigned expected = 0;
    for (unsigned step = 1; step <= 3; ++step) {
        advance<<<(count + 255) / 256, 256>>>(values.get(), count, step);
        LAUNCH_OK();
        expected = expected * 1664525u + step;
    }
    stop = true;
    writer.join();
    CUDA_OK(cudaFree(pages));
    const bool right = values.download().back() == expected;
    std::printf("shared_pages: %s\n", right ? "ok" : "wrong");
    return right ? 0 : 1;
}
