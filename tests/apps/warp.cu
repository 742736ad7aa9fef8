// Warp operations: shuffles of every kind and width, votes, ballots, matches and warp-wide reductions, under full and
// partial masks.
#include "check.cuh"

constexpr int COLUMNS = 12;

__host__ __device__ inline unsigned value_of(unsigned thread) { return (thread * 2654435761u) >> 20; }

__global__ void warp(unsigned *out) {
    unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    const unsigned full = 0xffffffffu;
    unsigned value = value_of(thread);
    unsigned *row = out + thread * COLUMNS;
    row[0] = __shfl_sync(full, value, (lane * 5 + 3) % 32);
    row[1] = __shfl_up_sync(full, value, 3);
    row[2] = __shfl_down_sync(full, value, 2, 8);
    row[3] = __shfl_xor_sync(full, value, 9);
    row[4] = static_cast<unsigned>(__double_as_longlong(__shfl_sync(full, value * 0.5, 31 - lane)) >> 32);
    row[5] = __ballot_sync(full, value & 1);
    row[6] = __any_sync(full, value % 61 == 0) * 2 + __all_sync(full, value < 4096);
    row[7] = __match_any_sync(full, value % 4);
    // The builtins behind __reduce_add_sync and similar functions: clang 19's header passes mask and value in the wrong
    // order.
    row[8] = __nvvm_redux_sync_add(value, full) ^ __nvvm_redux_sync_umax(value, full);
    row[9] = __nvvm_redux_sync_umin(value, full) ^ __nvvm_redux_sync_or(value, full) ^ __nvvm_redux_sync_and(value, full);
    row[10] = 0;
    // Half of the lanes, diverged from the others.
    if (lane % 2 == 1) {
        unsigned odd = 0xaaaaaaaau;
        row[10] = __shfl_xor_sync(odd, value, 2) + __popc(__ballot_sync(odd, value & 4));
    }
    __syncwarp();
    row[11] = __syncthreads_count(value & 2);
}

int main(int argc, char **argv) {
    unsigned blocks = static_cast<unsigned>(size_argument(argc, argv, 6));
    const unsigned block = 96;
    DeviceArray<unsigned> out(static_cast<size_t>(blocks) * block * COLUMNS);
    warp<<<blocks, block>>>(out.get());
    LAUNCH_OK();
    std::vector<unsigned> result = out.download();
    bool right = true;
    for (unsigned thread = 0; thread < blocks * block; ++thread) {
        unsigned lane = thread % block % 32, base = thread - lane, own = value_of(thread);
        auto at = [&](unsigned other) { return value_of(base + other); };
        unsigned ballot = 0, match = 0, sum = 0, most = 0, least = ~0u, any = 0, all = ~0u, odd_votes = 0, multiple = 0, small = 1,
                 block_count = 0;
        for (unsigned other = 0; other < 32; ++other) {
            unsigned value = at(other);
            ballot |= (value & 1) << other;
            match |= static_cast<unsigned>(value % 4 == own % 4) << other;
            sum += value;
            most = value > most ? value : most;
            least = value < least ? value : least;
            any |= value;
            all &= value;
            odd_votes += other % 2 == 1 && (value & 4);
            multiple |= value % 61 == 0;
            small &= value < 4096;
        }
        for (unsigned other = 0; other < block; ++other)
            block_count += (value_of(thread / block * block + other) & 2) != 0;
        double half = at(31 - lane) * 0.5;
        unsigned long long bits;
        __builtin_memcpy(&bits, &half, sizeof bits);
        const unsigned expected[COLUMNS] = {at((lane * 5 + 3) % 32),
                                            at(lane >= 3 ? lane - 3 : lane),
                                            at(lane % 8 < 6 ? lane + 2 : lane),
                                            at(lane ^ 9),
                                            static_cast<unsigned>(bits >> 32),
                                            ballot,
                                            multiple * 2 + small,
                                            match,
                                            sum ^ most,
                                            least ^ any ^ all,
                                            lane % 2 == 1 ? at(lane ^ 2) + odd_votes : 0,
                                            block_count};
        for (int column = 0; column < COLUMNS; ++column)
            if (result[static_cast<size_t>(thread) * COLUMNS + column] != expected[column]) {
                std::fprintf(stderr, "warp: thread %u, column %d: %u instead of %u\n", thread, column,
                             result[static_cast<size_t>(thread) * COLUMNS + column], expected[column]);
                right = false;
            }
    }
    return finish("warp", right, blocks);
}
