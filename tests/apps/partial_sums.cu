// Sums of 16 blocks, which together read all n integers: right only with this grid, for any block size.
#include "check.cuh"

__global__ void partial_sums(const int *values, size_t n, int *sums) {
    __shared__ int total;
    if (threadIdx.x == 0)
        total = 0;
    __syncthreads();
    int sum = 0;
    // Each block has a separate range, so its sum does not depend on the block's size.
    size_t stretch = (n + gridDim.x - 1) / gridDim.x, start = blockIdx.x * stretch;
    for (size_t i = start + threadIdx.x; i < n && i < start + stretch; i += blockDim.x)
        sum += values[i];
    atomicAdd(&total, sum);
    __syncthreads();
    if (threadIdx.x == 0)
        sums[blockIdx.x] = total;
}

int main(int argc, char **argv) {
    constexpr unsigned BLOCKS = 16;
    size_t n = size_argument(argc, argv, 20000);
    std::vector<int> values(n), expected(BLOCKS);
    for (size_t i = 0; i < n; ++i) {
        values[i] = static_cast<int>(i % 1009);
        expected[i / ((n + BLOCKS - 1) / BLOCKS)] += values[i];
    }
    DeviceArray<int> device_values(values);
    DeviceArray<int> sums(std::vector<int>(BLOCKS, 0));
    partial_sums<<<BLOCKS, 64>>>(device_values.get(), n, sums.get());
    LAUNCH_OK();
    return finish("partial_sums", sums.download() == expected, n);
}
