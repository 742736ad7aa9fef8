// Sums floats into 64 bins with float atomics. The bins depend on the order of the threads and, because of the
// grid-stride loop, on the launch shape: a replay agrees only within rounding.
#include "check.cuh"

#include <cmath>

constexpr unsigned BINS = 64;

__global__ void floatsum(const float *values, size_t n, float *bins) {
    size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
        atomicAdd(&bins[(i * 7 + i / 1024) % BINS], values[i]);
}

int main(int argc, char **argv) {
    size_t n = size_argument(argc, argv, 32768);
    std::vector<float> values(n);
    std::vector<double> expected(BINS);
    for (size_t i = 0; i < n; ++i) {
        values[i] = unit_float(static_cast<unsigned>(i));
        expected[(i * 7 + i / 1024) % BINS] += values[i];
    }
    DeviceArray<float> device_values(values), bins(BINS);
    bins.clear();
    floatsum<<<16, 256>>>(device_values.get(), n, bins.get());
    LAUNCH_OK();
    std::vector<float> result = bins.download();
    bool right = true;
    for (unsigned bin = 0; bin < BINS; ++bin)
        right = right && std::fabs(result[bin] - expected[bin]) <= 1e-4 * expected[bin];
    return finish("floatsum", right, n);
}
