// Constant and device variables that the host sets, the kernel reads and writes, and the host reads back. One contains
// the address of another, and one the address of a buffer.
#include "check.cuh"

struct Settings {
    int factor, offset;
};

__constant__ Settings settings;
__constant__ int weights[4] = {1, 10, 100, 1000};
__device__ unsigned long long total = 5;
__device__ int counters[8];
__device__ int *favourite = &counters[3];
__device__ int *buffer;

__global__ void globals(int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int value = settings.factor * i + settings.offset + weights[i % 4];
    buffer[i] = value;
    atomicAdd(&total, static_cast<unsigned long long>(value));
    atomicAdd(&counters[i % 8], 1);
    if (i % 16 == 5)
        atomicAdd(favourite, 1000);
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 5000));
    Settings chosen{3, 7};
    DeviceArray<int> out(n);
    int *address = out.get();
    CUDA_OK(cudaMemcpyToSymbol(settings, &chosen, sizeof chosen));
    CUDA_OK(cudaMemcpyToSymbol(buffer, &address, sizeof address));
    globals<<<blocks_for(n, 128), 128>>>(n);
    LAUNCH_OK();
    unsigned long long sum = 0, expected_sum = 5;
    int counts[8], expected_counts[8] = {};
    CUDA_OK(cudaMemcpyFromSymbol(&sum, total, sizeof sum));
    CUDA_OK(cudaMemcpyFromSymbol(counts, counters, sizeof counts));
    std::vector<int> result = out.download();
    const int host_weights[4] = {1, 10, 100, 1000};
    bool right = true;
    for (int i = 0; i < n; ++i) {
        int value = chosen.factor * i + chosen.offset + host_weights[i % 4];
        right = right && result[i] == value;
        expected_sum += static_cast<unsigned long long>(value);
        ++expected_counts[i % 8];
        expected_counts[3] += i % 16 == 5 ? 1000 : 0;
    }
    for (int i = 0; i < 8; ++i)
        right = right && counts[i] == expected_counts[i];
    return finish("globals", right && sum == expected_sum, n);
}
