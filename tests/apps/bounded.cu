// Accepted and refused launches of one kernel under two handles, each with its status. A replacement for the kernel
// must be refused in the same cases.
#include "driver.cuh"

#include <cstdint>

constexpr int OWN = 10000;

extern "C" __global__ void tile(int *out, int n, int large) {
    __shared__ volatile int own[OWN];
    extern __shared__ int asked[];
    int i = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= n || y != 0)
        return;
    if (large) {
        own[i] = i + large;
        out[i] += own[i];
    } else {
        asked[threadIdx.x] = i;
        out[i] += asked[threadIdx.x] + 1;
    }
}

int main() {
    const int n = 64;
    DeviceArray<int> out(n);
    out.clear();
    CUfunction functions[2];
    for (CUfunction &function : functions) {
        CUmodule module;
        DRIVER_OK(cuModuleLoadData, &module, device_code());
        DRIVER_OK(cuModuleGetFunction, &function, module, "tile");
    }
    int *pointer = out.get(), count = n, large = 0;
    void *arguments[] = {&pointer, &count, &large};
    auto launch = [&](int which, unsigned blocks, unsigned shared) {
        CUresult status =
            DRIVER(cuLaunchKernel)(functions[which], 2, blocks, 1, 32, 2, 1, shared, nullptr, arguments, nullptr);
        CUDA_OK(cudaDeviceSynchronize());
        std::printf("function %d, %u blocks, %u bytes: %s, %d\n", which, blocks, shared,
                    status == CUDA_SUCCESS ? "taken" : "refused", out.download()[3]);
    };
    launch(0, 4, 1024);
    // Together with the kernel's static memory it exceeds 48 KiB.
    launch(0, 4, 20000);
    DRIVER_OK(cuFuncSetAttribute, functions[0], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 50000);
    launch(0, 4, 20000);
    launch(1, 4, 20000);
    launch(0, 70000, 1024);
    // Half or twice as many blocks would work too, but not with these.
    for (int round = 0; round < 4; ++round)
        launch(1, 40000, 1024);
    for (int round = 0; round < 4; ++round)
        launch(round % 2, 4, 1024);
    return 0;
}
