// A code object from a file (this source's own device code, `modules.co` beside the program): its functions launched by
// each of the calls for that, and its variable found by name.
#include "../check.cuh"

#include <hip/hip_ext.h>
#include <string>

struct Pair {
    int factor;
    int *values;
};

extern "C" __device__ int offset;
__device__ int offset = 1;

extern "C" __global__ void scale(Pair pair, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        pair.values[i] = pair.values[i] * pair.factor + offset + static_cast<int>(gridDim.x);
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 1000));
    std::string file = argc > 2 ? argv[2] : std::string(argv[0]) + ".co";
    hipModule_t module;
    hipFunction_t function;
    CUDA_OK(hipModuleLoad(&module, file.c_str()));
    CUDA_OK(hipModuleGetFunction(&function, module, "scale"));
    hipDeviceptr_t address;
    size_t size;
    CUDA_OK(hipModuleGetGlobal(&address, &size, module, "offset"));
    int seven = 7;
    CUDA_OK(hipMemcpyHtoD(address, &seven, sizeof seven));

    std::vector<int> host(n);
    for (int i = 0; i < n; ++i)
        host[i] = static_cast<int>(scramble(i) % 1000);
    DeviceArray<int> values(host);
    unsigned grid = blocks_for(n, 64);
    Pair pair = {3, values.get()};
    void *parameters[] = {&pair, &n};
    CUDA_OK(hipModuleLaunchKernel(function, grid, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr));

    // The same by the bytes of the arguments.
    struct {
        Pair pair;
        int n;
    } packed = {{5, values.get()}, n};
    size_t bytes = sizeof packed;
    void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes, HIP_LAUNCH_PARAM_END};
    CUDA_OK(hipModuleLaunchKernel(function, grid, 1, 1, 64, 1, 1, 0, nullptr, nullptr, extra));

    // This one counts threads of the grid, not blocks.
    hipEvent_t begun, ended;
    CUDA_OK(hipEventCreate(&begun));
    CUDA_OK(hipEventCreate(&ended));
    pair.factor = 2;
    CUDA_OK(hipExtModuleLaunchKernel(function, grid * 64, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr, begun, ended, 0));
    CUDA_OK(hipEventSynchronize(ended));
    float milliseconds = -1;
    CUDA_OK(hipEventElapsedTime(&milliseconds, begun, ended));

    bool right = size == sizeof seven && milliseconds >= 0;
    std::vector<int> result = values.download();
    int add = 7 + static_cast<int>(grid);
    for (int i = 0; i < n; ++i)
        right = right && result[i] == ((host[i] * 3 + add) * 5 + add) * 2 + add;
    CUDA_OK(hipEventDestroy(begun));
    CUDA_OK(hipEventDestroy(ended));
    CUDA_OK(hipModuleUnload(module));
    return finish("modules", right, n);
}
