// A second context besides the runtime's, with its own stream and memory. Work of both is in progress when kernels are
// launched. The program destroys it with its memory, and the runtime's context continues.
#include "driver.cuh"

__global__ void shift(int *data, int by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] += by;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 3000));
    size_t bytes = n * sizeof(int);
    unsigned grid = blocks_for(n, 128);
    std::vector<int> x(n), first(n), second(n);
    for (int i = 0; i < n; ++i)
        x[i] = static_cast<int>(scramble(i) & 0xffff);
    DeviceArray<int> own(x);
    cudaKernel_t kernel;
    CUDA_OK(cudaGetKernel(&kernel, reinterpret_cast<const void *>(shift)));
    CUcontext primary, other;
    DRIVER_OK(cuCtxGetCurrent, &primary);
    DRIVER_OK(cuCtxCreate, &other, 0, 0);
    CUstream stream;
    CUdeviceptr data;
    CUfunction function;
    DRIVER_OK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    DRIVER_OK(cuMemAlloc, &data, bytes);
    DRIVER_OK(cuMemcpyHtoDAsync, data, x.data(), bytes, stream);
    DRIVER_OK(cuKernelGetFunction, &function, reinterpret_cast<CUkernel>(kernel));
    int by = 5;
    void *arguments[] = {&data, &by, &n};
    DRIVER_OK(cuLaunchKernel, function, grid, 1, 1, 128, 1, 1, 0, stream, arguments, nullptr);
    DRIVER_OK(cuCtxSetCurrent, primary);
    shift<<<grid, 128>>>(own.get(), 9, n);
    LAUNCH_OK();
    CUDA_OK(cudaMemcpy(first.data(), own.get(), bytes, cudaMemcpyDeviceToHost));
    DRIVER_OK(cuCtxSetCurrent, other);
    DRIVER_OK(cuStreamSynchronize, stream);
    DRIVER_OK(cuMemcpyDtoH, second.data(), data, bytes);
    DRIVER_OK(cuCtxDestroy, other);
    DRIVER_OK(cuCtxSetCurrent, primary);
    shift<<<grid, 128>>>(own.get(), -9, n);
    LAUNCH_OK();
    bool right = own.download() == x;
    for (int i = 0; i < n; ++i)
        right = right && first[i] == x[i] + 9 && second[i] == x[i] + 5;
    return finish("contexts", right, n);
}
