// All atomic operations on global and shared memory. The results do not depend on their order.
#include "check.cuh"

struct Words {
    int add, sub, least, most;
    unsigned increment, decrement, land, lor, lxor, exchanged, swapped;
    unsigned long long wide_add, wide_most, wide_swapped;
    float single;
    double twice;
};

__host__ __device__ inline Words start() {
    return {0, 0, 1 << 30, -(1 << 30), 0, 0, ~0u, 0, 0, 7, 0, 0, 0, 0, 0.0f, 0.0};
}

template <typename T> __device__ void add_by_swapping(T *word, T summand) {
    T seen = *word, expected;
    do {
        expected = seen;
        seen = atomicCAS(word, expected, expected + summand);
    } while (seen != expected);
}

__device__ void all(Words *w, unsigned i) {
    atomicAdd(&w->add, static_cast<int>(i % 5));
    atomicSub(&w->sub, static_cast<int>(i % 3));
    atomicMin(&w->least, static_cast<int>(i ^ 0x155) - 100);
    atomicMax(&w->most, static_cast<int>(i ^ 0x2aa) - 100);
    atomicInc(&w->increment, 12);
    atomicDec(&w->decrement, 10);
    atomicAnd(&w->land, ~(1u << i % 7));
    atomicOr(&w->lor, 1u << i % 11);
    atomicXor(&w->lxor, i * 2654435761u);
    atomicExch(&w->exchanged, 42u);
    add_by_swapping(&w->swapped, 2u);
    atomicAdd(&w->wide_add, 0x100000001ull);
    atomicMax(&w->wide_most, static_cast<unsigned long long>(i) << 33);
    add_by_swapping(&w->wide_swapped, 3ull);
    atomicAdd(&w->single, 0.5f);
    atomicAdd(&w->twice, 0.25);
}

__global__ void atomics(Words *global, Words *from_shared, unsigned n) {
    __shared__ Words local;
    if (threadIdx.x == 0)
        local = start();
    __syncthreads();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        all(global, i);
        all(&local, threadIdx.x);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        from_shared[blockIdx.x] = local;
}

static Words expected(unsigned n) {
    Words w = start();
    for (unsigned i = 0; i < n; ++i) {
        w.add += static_cast<int>(i % 5);
        w.sub -= static_cast<int>(i % 3);
        int low = static_cast<int>(i ^ 0x155) - 100, high = static_cast<int>(i ^ 0x2aa) - 100;
        w.least = low < w.least ? low : w.least;
        w.most = high > w.most ? high : w.most;
        w.increment = w.increment >= 12 ? 0 : w.increment + 1;
        w.decrement = w.decrement == 0 || w.decrement > 10 ? 10 : w.decrement - 1;
        w.land &= ~(1u << i % 7);
        w.lor |= 1u << i % 11;
        w.lxor ^= i * 2654435761u;
        w.exchanged = 42;
        w.swapped += 2;
        w.wide_add += 0x100000001ull;
        unsigned long long wide = static_cast<unsigned long long>(i) << 33;
        w.wide_most = wide > w.wide_most ? wide : w.wide_most;
        w.wide_swapped += 3;
        w.single += 0.5f;
        w.twice += 0.25;
    }
    return w;
}

static bool same(const Words &a, const Words &b) {
    return a.add == b.add && a.sub == b.sub && a.least == b.least && a.most == b.most && a.increment == b.increment &&
           a.decrement == b.decrement && a.land == b.land && a.lor == b.lor && a.lxor == b.lxor &&
           a.exchanged == b.exchanged && a.swapped == b.swapped && a.wide_add == b.wide_add && a.wide_most == b.wide_most &&
           a.wide_swapped == b.wide_swapped && a.single == b.single && a.twice == b.twice;
}

int main(int argc, char **argv) {
    unsigned n = static_cast<unsigned>(size_argument(argc, argv, 640)), block = 64, blocks = blocks_for(n, block);
    DeviceArray<Words> global(std::vector<Words>{start()}), from_shared(blocks);
    atomics<<<blocks, block>>>(global.get(), from_shared.get(), n);
    LAUNCH_OK();
    bool right = same(global.download()[0], expected(n));
    std::vector<Words> shared = from_shared.download();
    for (unsigned b = 0; b < blocks; ++b) {
        unsigned threads = (b + 1) * block <= n ? block : n - b * block;
        right = right && same(shared[b], expected(threads));
    }
    return finish("atomics", right, n);
}
