// One kernel, launched in every way that the runtime and the driver have offered since CUDA 4.0.
#include "driver.cuh"

struct Pair {
    int a;
    double b;
};

__global__ void mark(double *out, Pair pair, int way, int n) {
    extern __shared__ double scratch[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    scratch[threadIdx.x] = pair.a + pair.b * i;
    if (i < n)
        out[i] += scratch[threadIdx.x] + way;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 128));
    unsigned block = 128, shared = block * sizeof(double);
    dim3 grid(blocks_for(n, block));
    Pair pair = {3, 0.5};
    DeviceArray<double> out(n);
    out.clear();
    double *data = out.get();
    int way = 1, ways = 0;
    void *arguments[] = {&data, &pair, &way, &n};
    cudaFunction_t symbol;
    CUDA_OK(cudaGetFuncBySymbol(&symbol, reinterpret_cast<const void *>(mark)));
    CUfunction function = reinterpret_cast<CUfunction>(symbol);
    const void *kernel = reinterpret_cast<const void *>(mark);

    mark<<<grid, block, shared>>>(data, pair, way, n);
    ways += way++;
    CUDA_OK(cudaLaunchKernel(kernel, grid, dim3(block), arguments, shared, nullptr));
    ways += way++;
    cudaLaunchConfig_t configuration = {};
    configuration.gridDim = grid;
    configuration.blockDim = dim3(block);
    configuration.dynamicSmemBytes = shared;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributePriority;
    configuration.attrs = &attribute;
    configuration.numAttrs = 1;
    CUDA_OK(cudaLaunchKernelExC(&configuration, kernel, arguments));
    ways += way++;
    // One block, which every device can run at once.
    CUDA_OK(cudaLaunchCooperativeKernel(kernel, dim3(1), dim3(block), arguments, shared, nullptr));
    int cooperative = way;
    ++way;
    DRIVER_OK(cuLaunchKernel, function, grid.x, 1, 1, block, 1, 1, shared, nullptr, arguments, nullptr);
    ways += way++;
    struct alignas(8) {
        double *data;
        Pair pair;
        int way, n;
    } packed = {data, pair, way, n};
    size_t size = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    DRIVER_OK(cuLaunchKernel, function, grid.x, 1, 1, block, 1, 1, shared, nullptr, nullptr, extra);
    ways += way;
    LAUNCH_OK();

    bool right = true;
    std::vector<double> result = out.download();
    for (int i = 0; i < n; ++i) {
        double expected = 5 * (pair.a + pair.b * i) + ways;
        if (i < static_cast<int>(block))
            expected += pair.a + pair.b * i + cooperative;
        right = right && result[i] == expected;
    }
    return finish("launches", right, n);
}
