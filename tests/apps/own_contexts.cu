// Threads with separate contexts, which all launch their first kernel at the same moment.
#include "driver.cuh"

#include <atomic>
#include <thread>

__global__ void advance(int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] += 1;
}

int main(int argc, char **argv) {
    const int n = 10240, rounds = 20;
    int threads = static_cast<int>(size_argument(argc, argv, 8));
    CUdevice device;
    DRIVER_OK(cuInit, 0);
    DRIVER_OK(cuDeviceGet, &device, 0);
    std::atomic<int> ready{0}, wrong{0};
    std::vector<std::thread> running;
    for (int thread = 0; thread < threads; ++thread)
        running.emplace_back([&] {
            CUcontext context;
            DRIVER_OK(cuCtxCreate, &context, 0, device);
            {
                DeviceArray<int> values(n);
                values.clear();
                ready++;
                while (ready < threads)
                    std::this_thread::yield();
                for (int round = 0; round < rounds; ++round)
                    advance<<<blocks_for(n, 256), 256>>>(values.get(), n);
                LAUNCH_OK();
                for (int value : values.download())
                    wrong += value != rounds;
            }
            DRIVER_OK(cuCtxDestroy, context);
        });
    for (std::thread &thread : running)
        thread.join();
    return finish("own_contexts", wrong == 0, threads);
}
