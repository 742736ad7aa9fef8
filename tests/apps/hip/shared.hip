// Local data share, static and dynamic, launched by the macro of HIP's own: sums of blocks, and sums of columns by a
// wave that has no barrier, since its lanes run in step.
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

constexpr int COLUMNS = 17;

__global__ void columns(int *out, const int *values) {
    HIP_DYNAMIC_SHARED(int, parts);
    int lane = threadIdx.x;
    for (int i = lane; i < 32 * COLUMNS; i += blockDim.x)
        parts[i] = values[i];
    __syncthreads();
    if (lane < COLUMNS) {
        int sum = 0;
        for (int i = lane; i < 32 * COLUMNS; i += COLUMNS)
            sum += parts[i];
        parts[lane] = sum;
        // The neighbours' sums, which are there by now.
        out[lane] = parts[(lane + 1) % COLUMNS] - parts[(lane + COLUMNS - 1) % COLUMNS];
    }
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

    std::vector<int> table(32 * COLUMNS), expected(COLUMNS);
    for (int i = 0; i < static_cast<int>(table.size()); ++i)
        expected[i % COLUMNS] += table[i] = static_cast<int>(scramble(i) % 10);
    DeviceArray<int> cells(table), differences(COLUMNS);
    hipLaunchKernelGGL(columns, dim3(1), dim3(32), table.size() * sizeof(int), nullptr, differences.get(), cells.get());
    LAUNCH_OK();
    result = differences.download();
    for (int column = 0; column < COLUMNS; ++column)
        right = right && result[column] == expected[(column + 1) % COLUMNS] - expected[(column + COLUMNS - 1) % COLUMNS];
    return finish("shared", right, n);
}
