// Operations of AMD's waves: ballots of 64 bits, shuffles over the whole wave, permutations through LDS, uniform reads.
// What they give depends on the size of a wave, which the kernel tells.
#include "../check.cuh"

__global__ void waves(unsigned long long *ballots, int *values, int *size, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = __lane_id();
    if (i == 0)
        *size = warpSize;
    if (i >= n)
        return;
    int value = i * 7 + 3;
    ballots[i] = __ballot(value % 3 == 0);
    int sum = value;
    for (int step = warpSize / 2; step > 0; step /= 2)
        sum += __shfl_xor(sum, step);
    int turned = __shfl(value, (lane + 5) % warpSize), before = __shfl_up(value, 1), after = __shfl_down(value, 2);
    int half = __shfl(value, 1, 16), swapped = __builtin_amdgcn_ds_bpermute(4 * (lane ^ 1), value);
    int first = __builtin_amdgcn_readfirstlane(value);
    int any = __any(value % 1000 == 3), all = __all(value > 0);
    values[i] = sum + 3 * turned + 5 * before + 7 * after + 11 * half + 13 * swapped + 17 * first + 19 * any + 23 * all;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 4)) * 256, size = 0;
    DeviceArray<unsigned long long> ballots(n);
    DeviceArray<int> values(n), device_size(1);
    waves<<<n / 256, 256>>>(ballots.get(), values.get(), device_size.get(), n);
    LAUNCH_OK();
    size = device_size.download()[0];
    std::vector<unsigned long long> masks = ballots.download();
    std::vector<int> result = values.download();
    bool right = size == 32 || size == 64;
    for (int i = 0; right && i < n; ++i) {
        int first = i / size * size, lane = i % size, sum = 0, any = 0;
        unsigned long long mask = 0;
        auto value = [&](int of) { return (first + of) * 7 + 3; };
        for (int other = 0; other < size; ++other) {
            sum += value(other);
            mask |= static_cast<unsigned long long>(value(other) % 3 == 0) << other;
            any |= value(other) % 1000 == 3;
        }
        int before = value(lane ? lane - 1 : lane), after = value(lane + 2 < size ? lane + 2 : lane);
        right = masks[i] == mask && result[i] == sum + 3 * value((lane + 5) % size) + 5 * before + 7 * after +
                                                     11 * value(lane / 16 * 16 + 1) + 13 * value(lane ^ 1) + 17 * value(0) +
                                                     19 * any + 23;
    }
    return finish("waves", right, n);
}
