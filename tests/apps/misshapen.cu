// A kernel that is right in most shapes, but fails differently in three, for the faults of benches/replay: blocks
// of 33 threads write to unmapped memory, blocks of 34 write past the end of the data, and blocks of 65 never
// end.
#include "check.cuh"

__constant__ int step;
__device__ int seen;

__global__ void update(int *data, int n) {
    switch (blockDim.x) {
    case 33:
        *reinterpret_cast<volatile int *>(4096) = 1;
        break;
    case 34:
        data[n] = 1;
        break;
    case 65:
        for (;;)
            static_cast<void>(*static_cast<volatile int *>(data));
    }
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        data[i] += step;
        atomicAdd(&seen, 1);
    }
}

int main() {
    // Not a whole number of blocks.
    const int n = 100001, by = 7;
    std::vector<int> values(n);
    for (int i = 0; i < n; ++i)
        values[i] = scramble(i) >> 8;
    CUDA_OK(cudaMemcpyToSymbol(step, &by, sizeof by));
    DeviceArray<int> device_values(values);
    update<<<blocks_for(n, 128), 128>>>(device_values.get(), n);
    LAUNCH_OK();
    for (int &value : values)
        value += by;
    return finish("misshapen", device_values.download() == values, n);
}
