// Many device variables: of every size, adjacent, constant and not, initialised and not, some used by one kernel, and
// one by none. The host sets some and reads others back.
#include "check.cuh"

__device__ int calls;
__device__ char letter = 'a';
__device__ short steps[3] = {1, 2, 3};
__device__ char odd[13] = {1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 1, 2};
__device__ double mean = 0.5, spread = 0.25;
__device__ float4 corner = {1, 2, 3, 4};
__device__ unsigned table[50000];
__device__ unsigned histogram[64];
__device__ long long unused = 99;
__device__ unsigned long long sums[5];
__constant__ int shift = 3;
__constant__ float weights[5] = {1, 0.5f, 0.25f, 0.125f, 2};
__constant__ unsigned char permutation[256];
#ifdef __NVCC__
__managed__ unsigned shared_total = 7;
#else
__device__ unsigned shared_total = 7;
#endif

__global__ void count(int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned value = table[i] + permutation[i % 256] + odd[i % 13] + steps[i % 3];
    atomicAdd(&histogram[value % 64], 1u);
    atomicAdd(&sums[i % 5], static_cast<unsigned long long>(value >> shift));
    table[i] = value;
    if (i == 0) {
        calls += 1;
        letter += 1;
    }
}

__global__ void weigh(float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = weights[i % 5] * static_cast<float>(table[i]) + corner.y + static_cast<float>(mean + spread);
    atomicAdd(&shared_total, 1u);
    if (i == 1)
        corner.w = out[i];
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 20000));
    std::vector<unsigned> values(n);
    unsigned char order[256];
    for (int i = 0; i < n; ++i)
        values[i] = static_cast<unsigned>(scramble(i)) >> 20;
    for (int i = 0; i < 256; ++i)
        order[i] = static_cast<unsigned char>(i * 7 + 3);
    CUDA_OK(cudaMemcpyToSymbol(table, values.data(), n * sizeof(unsigned)));
    CUDA_OK(cudaMemcpyToSymbol(permutation, order, sizeof order));
    DeviceArray<float> out(n);
    count<<<blocks_for(n, 128), 128>>>(n);
    LAUNCH_OK();
    weigh<<<blocks_for(n, 128), 128>>>(out.get(), n);
    LAUNCH_OK();
    const int steps_of_host[3] = {1, 2, 3}, odd_of_host[13] = {1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 1, 2};
    const float weights_of_host[5] = {1, 0.5f, 0.25f, 0.125f, 2};
    std::vector<unsigned> counts(64), expected(64);
    std::vector<float> result = out.download();
    bool right = true;
    for (int i = 0; i < n; ++i) {
        unsigned value = values[i] + order[i % 256] + odd_of_host[i % 13] + steps_of_host[i % 3];
        ++expected[value % 64];
        right = right && result[i] == weights_of_host[i % 5] * static_cast<float>(value) + 2 + 0.75f;
    }
    unsigned total = 0;
    char last = 0;
    CUDA_OK(cudaMemcpyFromSymbol(counts.data(), histogram, 64 * sizeof(unsigned)));
    CUDA_OK(cudaMemcpyFromSymbol(&total, shared_total, sizeof total));
    CUDA_OK(cudaMemcpyFromSymbol(&last, letter, sizeof last));
    right = right && counts == expected && last == 'b' && total == 7u + static_cast<unsigned>(n);
    return finish("variables", right, n);
}
