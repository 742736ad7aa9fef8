// Barriers in shared memory (architecture 90 and later). One warp fetches tiles by bulk copies, two others compute on
// them, each tile guarded by a barrier for "full" and one for "empty"; and threads that leave a barrier's phases early.
#include "check.cuh"

constexpr int CONSUMERS = 64, TILE = 256, STAGES = 2;

__device__ unsigned place(const void *shared) { return static_cast<unsigned>(__cvta_generic_to_shared(shared)); }

__device__ void begin(unsigned long long *barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(place(barrier)), "r"(arrivals) : "memory");
}

__device__ void arrive(unsigned long long *barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(place(barrier)) : "memory");
}

__device__ void wait(unsigned long long *barrier, unsigned parity) {
    unsigned done = 0;
    while (!done)
        asm volatile("{\n\t.reg .pred p;\n\t"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(done)
                     : "r"(place(barrier)), "r"(parity)
                     : "memory");
}

__device__ void fetch(int *to, const int *from, unsigned bytes, unsigned long long *barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place(barrier)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(place(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(place(barrier))
                 : "memory");
}

__global__ void pipeline(const int *in, int *out, int tiles) {
    __shared__ __align__(128) int tile[STAGES][TILE];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            begin(&full[stage], 1);
            begin(&empty[stage], CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    const int *own = in + blockIdx.x * tiles * TILE;
    if (threadIdx.x < 32) {
        if (threadIdx.x == 0) {
            for (int i = 0; i < tiles; ++i) {
                int stage = i % STAGES;
                wait(&empty[stage], (i / STAGES & 1) ^ 1);
                fetch(tile[stage], own + i * TILE, sizeof tile[stage], &full[stage]);
            }
        }
        return;
    }
    int sum = 0;
    for (int i = 0; i < tiles; ++i) {
        int stage = i % STAGES;
        wait(&full[stage], i / STAGES & 1);
        for (int j = threadIdx.x - 32; j < TILE; j += CONSUMERS)
            sum = sum * 3 + tile[stage][j];
        arrive(&empty[stage]);
    }
    out[blockIdx.x * CONSUMERS + threadIdx.x - 32] = sum;
}

// One of N threads leaves in each phase. The others see all earlier writes.
__global__ void leaving(int *out) {
    __shared__ __align__(8) unsigned long long barrier;
    __shared__ int turns[128];
    int thread = threadIdx.x, seen = 0;
    turns[thread] = 0;
    if (thread == 0)
        begin(&barrier, blockDim.x);
    __syncthreads();
    for (int phase = 0; phase < int(blockDim.x); ++phase) {
        turns[thread] = phase + 1;
        if (thread == phase) {
            asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];" ::"r"(place(&barrier)) : "memory");
            break;
        }
        unsigned long long state;
        asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(place(&barrier)) : "memory");
        unsigned done = 0;
        while (!done)
            asm volatile("{\n\t.reg .pred p;\n\tmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\n\t"
                         "selp.u32 %0, 1, 0, p;\n\t}"
                         : "=r"(done)
                         : "r"(place(&barrier)), "l"(state)
                         : "memory");
        seen += static_cast<volatile int *>(turns)[phase] == phase + 1;
    }
    out[blockIdx.x * blockDim.x + thread] = seen;
}

int main() {
    const int blocks = 6, tiles = 11, threads = 96;
    std::vector<int> numbers(blocks * tiles * TILE);
    for (size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = int(i * 7919 % 1009);
    DeviceArray<int> in(numbers), out(blocks * CONSUMERS), phases(blocks * threads);
    pipeline<<<blocks, 32 + CONSUMERS>>>(in.get(), out.get(), tiles);
    LAUNCH_OK();
    std::vector<int> sums = out.download();
    bool right = true;
    for (int block = 0; block < blocks; ++block)
        for (int thread = 0; thread < CONSUMERS; ++thread) {
            int sum = 0;
            for (int i = 0; i < tiles; ++i)
                for (int j = thread; j < TILE; j += CONSUMERS)
                    sum = sum * 3 + numbers[(block * tiles + i) * TILE + j];
            right = right && sums[block * CONSUMERS + thread] == sum;
        }
    leaving<<<blocks, threads>>>(phases.get());
    LAUNCH_OK();
    std::vector<int> seen = phases.download();
    for (int i = 0; i < blocks * threads; ++i)
        right = right && seen[i] == i % threads;
    return finish("mbarriers", right, blocks);
}
