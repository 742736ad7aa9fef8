// Reads and writes a small part of large allocations: part [MiB].

#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

__global__ void part(float *data, float const *weights, size_t from, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[from + i] = data[from + i] * 2.0f + weights[i];
}

int main(int argc, char **argv) {
    size_t bytes = (argc > 1 ? strtoul(argv[1], nullptr, 10) : 64) << 20, total = bytes / sizeof(float);
    int n = 1 << 17;
    std::vector<float> host(total);
    unsigned state = 1;
    for (float &value : host) {
        state = state * 1664525u + 1013904223u;
        value = float(state >> 8);
    }
    float *data, *weights;
    if (cudaMalloc(&data, bytes) != cudaSuccess || cudaMalloc(&weights, bytes) != cudaSuccess)
        return 1;
    cudaMemcpy(data, host.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(weights, host.data(), bytes, cudaMemcpyHostToDevice);
    size_t from = total / 2 + 1000;
    part<<<(n + 255) / 256, 256>>>(data, weights, from, n);
    std::vector<float> result(total);
    cudaMemcpy(result.data(), data, bytes, cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < total; ++i) {
        float expected = i - from < size_t(n) ? host[i] * 2.0f + host[i - from] : host[i];
        if (result[i] != expected)
            return 1;
    }
    printf("part: ok\n");
    cudaFree(data);
    cudaFree(weights);
}
