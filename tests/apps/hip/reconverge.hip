// Lanes of a wave part in branches, loops and calls, and are together again after them: the lanes at each ballot are
// those that an AMD GPU has there.
#include "../check.cuh"

constexpr int RESULTS = 6;

__device__ __attribute__((noinline)) int present() { return __popcll(__ballot(1)); }

__global__ void reconverge(int *out, int rounds) {
    int lane = __lane_id();
    int *results = out + RESULTS * (blockIdx.x * blockDim.x + threadIdx.x);

    // A branch at the end of each round.
    int together = 0, in_branch = 0;
    for (int i = 0; i < rounds; ++i) {
        together += __popcll(__ballot(1));
        if ((lane + i) & 1)
            in_branch += __popcll(__ballot(1));
    }
    results[0] = together;
    results[1] = in_branch;

    // Rounds that are cut short.
    int chosen = 0;
    for (int i = 0; i < rounds; ++i) {
        if ((lane ^ i) & 1)
            continue;
        chosen += __popcll(__ballot(1));
    }
    results[2] = chosen;

    // A loop in a loop, which lanes leave at different times.
    int inner = 0;
    for (int i = 0; i < rounds; ++i) {
        for (int j = 0; j < (lane & 3); ++j)
            inner += __popcll(__ballot(1));
        inner += 1000 * (__ballot(1) == __ballot(i >= 0));
    }
    results[3] = inner;

    // One function, called at two places.
    results[4] = lane < 20 ? present() : 100 + present();

    // Lanes that end one after another.
    for (int i = 0; i < rounds; ++i) {
        results[5] = __popcll(__ballot(1));
        if (lane == i)
            return;
    }
}

int main(int argc, char **argv) {
    int rounds = static_cast<int>(size_argument(argc, argv, 8)) & ~1, threads = 128, n = 2 * threads;
    hipDeviceProp_t properties;
    CUDA_OK(hipGetDeviceProperties(&properties, 0));
    int size = properties.warpSize;
    DeviceArray<int> out(RESULTS * n);
    reconverge<<<2, threads>>>(out.get(), rounds);
    LAUNCH_OK();
    std::vector<int> results = out.download();
    bool right = true;
    for (int i = 0; i < n; ++i) {
        int lane = i % size, inner = 0;
        for (int j = 0; j < (lane & 3); ++j)
            inner += size * (3 - j) / 4;
        int last = lane < rounds ? lane : rounds - 1;
        int expected[RESULTS] = {rounds * size,
                                 rounds / 2 * size / 2,
                                 rounds / 2 * size / 2,
                                 rounds * (inner + 1000),
                                 lane < 20 ? 20 : 100 + size - 20,
                                 size - last};
        for (int j = 0; j < RESULTS; ++j)
            right = right && results[RESULTS * i + j] == expected[j];
    }
    return finish("reconverge", right, n);
}
