// Every device computes on its own memory. Then the first device uses memory of the last one through peer access. With
// a single device both are the same.
#include "check.cuh"

__global__ void fill(long *out, long seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = seed * i + 1;
}

__global__ void combine(long *out, const long *peer, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 10 * out[i] + peer[n - 1 - i];
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 3000)), count = 0;
    unsigned grid = blocks_for(n, 128);
    size_t bytes = n * sizeof(long);
    CUDA_OK(cudaGetDeviceCount(&count));
    int last = count > 1 ? 1 : 0, reachable = 1;
    long *own, *peer, *copy;
    bool right = true;
    CUDA_OK(cudaSetDevice(last));
    CUDA_OK(cudaMalloc(reinterpret_cast<void **>(&peer), bytes));
    fill<<<grid, 128>>>(peer, 7, n);
    LAUNCH_OK();
    cudaPointerAttributes attributes;
    CUDA_OK(cudaPointerGetAttributes(&attributes, peer));
    right = right && attributes.device == last && attributes.type == cudaMemoryTypeDevice;

    CUDA_OK(cudaSetDevice(0));
    CUDA_OK(cudaMalloc(reinterpret_cast<void **>(&own), bytes));
    CUDA_OK(cudaMalloc(reinterpret_cast<void **>(&copy), bytes));
    fill<<<grid, 128>>>(own, 3, n);
    LAUNCH_OK();
    // A copy between devices needs no peer access.
    CUDA_OK(cudaMemcpyPeer(copy, 0, peer, last, bytes));
    if (last) {
        CUDA_OK(cudaDeviceCanAccessPeer(&reachable, 0, last));
        if (reachable)
            CUDA_OK(cudaDeviceEnablePeerAccess(last, 0));
    }
    combine<<<grid, 128>>>(own, reachable ? peer : copy, n);
    LAUNCH_OK();
    std::vector<long> result(n), copied(n);
    CUDA_OK(cudaMemcpy(result.data(), own, bytes, cudaMemcpyDeviceToHost));
    CUDA_OK(cudaMemcpy(copied.data(), copy, bytes, cudaMemcpyDeviceToHost));
    for (long i = 0; i < n; ++i)
        right = right && result[i] == 10 * (3 * i + 1) + 7 * (n - 1 - i) + 1 && copied[i] == 7 * i + 1;
    CUDA_OK(cudaFree(own));
    CUDA_OK(cudaFree(copy));
    CUDA_OK(cudaSetDevice(last));
    CUDA_OK(cudaFree(peer));
    return finish("devices", right, n);
}
