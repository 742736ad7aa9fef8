// Local data share, static and dynamic, launched by the macro of HIP's own: sums of blocks, then their prefixes.
#include "../check.cuh"

__global__ void sums(int *blocks, const int *values, int n) {
    HIP_DYNAMIC_SHARED(int, parts);
    __shared__ int count;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0)
        count = 0;
    parts[threadIdx.x] = i < n ? values[i] : 0;
    __syncthreads();
    if (i < n && values[i] % 2)
        atomicAdd(&count, 1);
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        blocks[blockIdx.x] = parts[0] * 1000 + count;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 1500));
    std::vector<int> host(n);
    for (int i = 0; i < n; ++i)
        host[i] = static_cast<int>(scramble(i) % 100);
    unsigned grid = blocks_for(n, 128);
    DeviceArray<int> values(host), blocks(grid);
    hipLaunchKernelGGL(sums, dim3(grid), dim3(128), 128 * sizeof(int), nullptr, blocks.get(), values.get(), n);
    LAUNCH_OK();
    std::vector<int> result = blocks.download();
    bool right = true;
    for (unsigned block = 0; block < grid; ++block) {
        int sum = 0, count = 0;
        for (int i = block * 128; i < n && i < static_cast<int>(block + 1) * 128; ++i) {
            sum += host[i];
            count += host[i] % 2;
        }
        right = right && result[block] == sum * 1000 + count;
    }
    return finish("shared", right, n);
}
