// A kernel that gets the addresses of device variables without knowing their names, and writes to one.
#include "check.cuh"

__device__ int table[300];
__device__ int sums[64];

__global__ void add(const int *in, int *out, int n, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int at = i; i < count && at < n; at += count)
        out[i] += in[at];
}

int main() {
    const int n = 300, count = 64;
    std::vector<int> values(n);
    for (int i = 0; i < n; ++i)
        values[i] = scramble(i) >> 16;
    CUDA_OK(cudaMemcpyToSymbol(table, values.data(), n * sizeof(int)));
    void *in, *out;
    CUDA_OK(cudaGetSymbolAddress(&in, table));
    CUDA_OK(cudaGetSymbolAddress(&out, sums));
    add<<<2, 32>>>(static_cast<const int *>(in), static_cast<int *>(out), n, count);
    LAUNCH_OK();
    std::vector<int> result(count);
    CUDA_OK(cudaMemcpyFromSymbol(result.data(), sums, count * sizeof(int)));
    bool right = true;
    for (int i = 0; i < count; ++i) {
        int sum = 0;
        for (int at = i; at < n; at += count)
            sum += values[at];
        right = right && result[i] == sum;
    }
    return finish("symbol", right, n);
}
