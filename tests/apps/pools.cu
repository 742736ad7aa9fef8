// Stream-ordered allocations from the default pool and from a pool that the program creates.
#include "check.cuh"

__global__ void blend(int *out, const int *a, const int *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 3 * a[i] - b[n - 1 - i];
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 5000));
    size_t bytes = n * sizeof(int);
    std::vector<int> x(n), result(n);
    for (int i = 0; i < n; ++i)
        x[i] = static_cast<int>(scramble(i) & 0xffff);
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreate(&stream));
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    cudaMemPool_t pool;
    CUDA_OK(cudaMemPoolCreate(&pool, &properties));

    int *a, *b, *out;
    CUDA_OK(cudaMallocAsync(reinterpret_cast<void **>(&a), bytes, stream));
    CUDA_OK(cudaMallocFromPoolAsync(reinterpret_cast<void **>(&b), bytes, pool, stream));
    CUDA_OK(cudaMallocFromPoolAsync(reinterpret_cast<void **>(&out), bytes, pool, stream));
    CUDA_OK(cudaMemcpyAsync(a, x.data(), bytes, cudaMemcpyHostToDevice, stream));
    CUDA_OK(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, stream));
    blend<<<blocks_for(n, 128), 128, 0, stream>>>(out, a, b, n);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaMemcpyAsync(result.data(), out, bytes, cudaMemcpyDeviceToHost, stream));
    CUDA_OK(cudaFreeAsync(a, stream));
    CUDA_OK(cudaFreeAsync(b, stream));
    CUDA_OK(cudaFreeAsync(out, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    bool right = true;
    for (int i = 0; i < n; ++i)
        right = right && result[i] == 3 * x[i] - x[n - 1 - i];
    CUDA_OK(cudaMemPoolDestroy(pool));
    CUDA_OK(cudaStreamDestroy(stream));
    return finish("pools", right, n);
}
