// C = A * B for square matrices, written without care: each product is added to memory by an atomic operation.
// Without clang, NVRTC compiles proposals. It sees device code alone.
#ifndef __CUDACC_RTC__
#include <cstdio>
#include <vector>

#include <cuda_runtime.h>
#endif

// EVOLVE-BLOCK-START
__global__ void matmul(const int *a, const int *b, int *c, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || column >= n)
        return;
    c[row * n + column] = 0;
    for (int k = 0; k < n; ++k)
        atomicAdd(&c[row * n + column], a[row * n + k] * b[k * n + column]);
}
// EVOLVE-BLOCK-END

#ifndef __CUDACC_RTC__
int main() {
    const int n = 96;
    std::vector<int> a(n * n), b(n * n), c(n * n);
    for (int i = 0; i < n * n; ++i) {
        a[i] = i * 7 % 17 - 8;
        b[i] = i * 5 % 13 - 6;
    }
    int *device[3];
    for (int *&matrix : device)
        cudaMalloc(&matrix, n * n * sizeof(int));
    cudaMemcpy(device[0], a.data(), n * n * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(device[1], b.data(), n * n * sizeof(int), cudaMemcpyHostToDevice);
    matmul<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(device[0], device[1], device[2], n);
    cudaMemcpy(c.data(), device[2], n * n * sizeof(int), cudaMemcpyDeviceToHost);
    std::printf("c[1] = %d: %s\n", c[1], cudaGetErrorString(cudaDeviceSynchronize()));
}
#endif
