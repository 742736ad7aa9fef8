// out = in transposed, written without care: each element is cleared, and then added by an atomic operation.
// Without clang, NVRTC compiles proposals. It sees device code alone.
#ifndef __CUDACC_RTC__
#include <cstdio>
#include <vector>

#include <cuda_runtime.h>
#endif

// EVOLVE-BLOCK-START
__global__ void transpose(const int *in, int *out, long n) {
    long step = long(gridDim.x) * blockDim.x;
    for (long i = long(blockIdx.x) * blockDim.x + threadIdx.x; i < n * n; i += step) {
        long row = i / n, column = i % n;
        atomicExch(&out[column * n + row], 0);
        atomicAdd(&out[column * n + row], in[row * n + column]);
    }
}
// EVOLVE-BLOCK-END

#ifndef __CUDACC_RTC__
int main() {
    const long n = 512;
    std::vector<int> in(n * n), out(n * n);
    for (long i = 0; i < n * n; ++i)
        in[i] = int(i);
    int *device[2];
    for (int *&matrix : device)
        cudaMalloc(&matrix, n * n * sizeof(int));
    cudaMemcpy(device[0], in.data(), n * n * sizeof(int), cudaMemcpyHostToDevice);
    transpose<<<16, 256>>>(device[0], device[1], n);
    cudaMemcpy(out.data(), device[1], n * n * sizeof(int), cudaMemcpyDeviceToHost);
    std::printf("out[1] = %d: %s\n", out[1], cudaGetErrorString(cudaDeviceSynchronize()));
}
#endif
