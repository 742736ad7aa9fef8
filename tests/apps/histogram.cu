// A histogram of bytes: each block counts into dynamic shared memory, then adds its counts to the global ones.
#include "check.cuh"

__global__ void histogram(const unsigned char *bytes, size_t n, unsigned *counts, unsigned bins) {
    extern __shared__ unsigned local[];
    for (unsigned bin = threadIdx.x; bin < bins; bin += blockDim.x)
        local[bin] = 0;
    __syncthreads();
    size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
        atomicAdd(&local[bytes[i] % bins], 1u);
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < bins; bin += blockDim.x)
        if (local[bin] != 0)
            atomicAdd(&counts[bin], local[bin]);
}

int main(int argc, char **argv) {
    size_t n = size_argument(argc, argv, 40000);
    const unsigned bins = 200;
    std::vector<unsigned char> bytes(n);
    std::vector<unsigned> expected(bins);
    for (size_t i = 0; i < n; ++i) {
        bytes[i] = static_cast<unsigned char>(scramble(static_cast<unsigned>(i)) % 251);
        ++expected[bytes[i] % bins];
    }
    DeviceArray<unsigned char> device_bytes(bytes);
    DeviceArray<unsigned> counts(bins);
    counts.clear();
    histogram<<<8, 128, bins * sizeof(unsigned)>>>(device_bytes.get(), n, counts.get(), bins);
    LAUNCH_OK();
    return finish("histogram", counts.download() == expected, n);
}
