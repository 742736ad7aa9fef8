// Sum, smallest and largest of n integers: shuffles within a warp, shared memory between warps, atomics between blocks.
#include "check.cuh"

struct Totals {
    unsigned long long sum;
    int smallest, largest;
    unsigned odd;
};

__global__ void reduce(const int *values, size_t n, Totals *totals) {
    __shared__ long long sums[32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    long long sum = 0;
    int smallest = 0x7fffffff, largest = -0x7fffffff - 1;
    unsigned odd = 0;
    size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    // All lanes of a warp iterate together, so the ballot includes every lane.
    for (size_t base = static_cast<size_t>(blockIdx.x) * blockDim.x; base < n; base += stride) {
        size_t i = base + threadIdx.x;
        int value = i < n ? values[i] : 0;
        odd += __popc(__ballot_sync(0xffffffffu, i < n && (value & 1)));
        if (i < n) {
            sum += value;
            smallest = min(smallest, value);
            largest = max(largest, value);
        }
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
        smallest = min(smallest, __shfl_xor_sync(0xffffffffu, smallest, offset));
        largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    }
    if (lane == 0) {
        sums[warp] = sum;
        atomicMin(&totals->smallest, smallest);
        atomicMax(&totals->largest, largest);
        atomicAdd(&totals->odd, odd);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned other = 1; other < blockDim.x / 32; ++other)
            sum += sums[other];
        atomicAdd(&totals->sum, static_cast<unsigned long long>(sum));
    }
}

int main(int argc, char **argv) {
    size_t n = size_argument(argc, argv, 30000);
    std::vector<int> values(n);
    Totals expected{0, 0x7fffffff, -0x7fffffff - 1, 0};
    for (size_t i = 0; i < n; ++i) {
        values[i] = static_cast<int>(scramble(static_cast<unsigned>(i)));
        expected.sum += static_cast<unsigned long long>(static_cast<long long>(values[i]));
        expected.smallest = values[i] < expected.smallest ? values[i] : expected.smallest;
        expected.largest = values[i] > expected.largest ? values[i] : expected.largest;
        expected.odd += values[i] & 1;
    }
    DeviceArray<int> device_values(values);
    DeviceArray<Totals> totals(std::vector<Totals>{{0, 0x7fffffff, -0x7fffffff - 1, 0}});
    reduce<<<8, 256>>>(device_values.get(), n, totals.get());
    LAUNCH_OK();
    Totals result = totals.download()[0];
    bool right = result.sum == expected.sum && result.smallest == expected.smallest &&
                 result.largest == expected.largest && result.odd == expected.odd;
    return finish("reduce", right, n);
}
