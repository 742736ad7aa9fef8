// Memory of the device that a host thread writes to in place while a kernel that does not use it runs: memory of
// hipMalloc, which HIP lets the host use where the device's memory can be addressed, or (argument 1) fine-grained.
#include "../check.cuh"

#include <atomic>
#include <thread>

__global__ void advance(unsigned *values, int count, unsigned step) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count)
        values[index] = values[index] * 1664525u + step;
}

int main(int argc, char **argv) {
    const bool fine = argc > 1 && *argv[1] == '1';
    const int count = 10000, words = 4 << 20;
    DeviceArray<unsigned> values(count);
    values.clear();
    unsigned *pages = nullptr;
    CUDA_OK(hipExtMallocWithFlags(reinterpret_cast<void **>(&pages), words * sizeof *pages,
                                  fine ? hipDeviceMallocFinegrained : hipDeviceMallocDefault));
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
    CUDA_OK(hipFree(pages));
    const bool right = values.download().back() == expected;
    std::printf("written: %s\n", right ? "ok" : "wrong");
    return right ? 0 : 1;
}
