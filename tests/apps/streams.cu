// Two kernels on two streams at once, then a third that waits for both by an event.
#include "check.cuh"

__global__ void squares(long *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = static_cast<long>(i) * i;
}

__global__ void triangles(long *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = static_cast<long>(i) * (i + 1) / 2;
}

__global__ void combine(long *out, const long *a, const long *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 3 * a[i] - b[i];
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 10000));
    cudaStream_t first, second;
    cudaEvent_t done;
    CUDA_OK(cudaStreamCreate(&first));
    CUDA_OK(cudaStreamCreate(&second));
    CUDA_OK(cudaEventCreate(&done));
    DeviceArray<long> a(n), b(n), out(n);
    unsigned grid = blocks_for(n, 256);
    squares<<<grid, 256, 0, first>>>(a.get(), n);
    triangles<<<grid, 256, 0, second>>>(b.get(), n);
    CUDA_OK(cudaEventRecord(done, second));
    CUDA_OK(cudaStreamWaitEvent(first, done, 0));
    combine<<<grid, 256, 0, first>>>(out.get(), a.get(), b.get(), n);
    CUDA_OK(cudaGetLastError());
    std::vector<long> result(n);
    CUDA_OK(cudaMemcpyAsync(result.data(), out.get(), n * sizeof(long), cudaMemcpyDeviceToHost, first));
    CUDA_OK(cudaStreamSynchronize(first));
    CUDA_OK(cudaStreamSynchronize(second));
    bool right = true;
    for (long i = 0; i < n; ++i)
        right = right && result[i] == 3 * i * i - i * (i + 1) / 2;
    CUDA_OK(cudaEventDestroy(done));
    CUDA_OK(cudaStreamDestroy(first));
    CUDA_OK(cudaStreamDestroy(second));
    return finish("streams", right, n);
}
