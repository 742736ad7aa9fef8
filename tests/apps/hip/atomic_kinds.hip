// Atomic operations of AMD's memory: integers and floating point in global memory and in LDS, compare and swap, a
// counter that wraps, packed bits.
#include "../check.cuh"

__global__ void atomic_kinds(int *integers, float *sum, double *precise, unsigned long long *bits, int n) {
    __shared__ float part;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0)
        part = 0;
    __syncthreads();
    if (i < n) {
        atomicAdd(&integers[0], i);
        atomicMax(&integers[1], i * 3 % 1009);
        atomicMin(&integers[2], -(i * 5 % 1013));
        atomicXor(&integers[3], i);
        atomicInc(reinterpret_cast<unsigned *>(&integers[4]), 10);
        int seen = integers[5], expected;
        do {
            expected = seen;
            seen = atomicCAS(&integers[5], expected, expected + 2);
        } while (seen != expected);
        atomicAdd(&part, static_cast<float>(i % 4));
        atomicAdd(precise, 0.5);
        atomicOr(bits, 1ull << (i % 64));
    }
    __syncthreads();
    if (threadIdx.x == 0)
        atomicAdd(sum, part);
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 1000));
    DeviceArray<int> integers(6);
    DeviceArray<float> sum(1);
    DeviceArray<double> precise(1);
    DeviceArray<unsigned long long> bits(1);
    integers.clear(), sum.clear(), precise.clear(), bits.clear();
    atomic_kinds<<<blocks_for(n, 128), 128>>>(integers.get(), sum.get(), precise.get(), bits.get(), n);
    LAUNCH_OK();
    int total = 0, most = 0, least = 0, mixed = 0;
    float expected = 0;
    unsigned long long all = 0;
    for (int i = 0; i < n; ++i) {
        total += i;
        most = i * 3 % 1009 > most ? i * 3 % 1009 : most;
        least = -(i * 5 % 1013) < least ? -(i * 5 % 1013) : least;
        mixed ^= i;
        expected += i % 4;
        all |= 1ull << (i % 64);
    }
    std::vector<int> found = integers.download();
    bool right = found == std::vector<int>{total, most, least, mixed, n % 11, 2 * n} && sum.download()[0] == expected &&
                 precise.download()[0] == 0.5 * n && bits.download()[0] == all;
    return finish("atomic_kinds", right, n);
}
