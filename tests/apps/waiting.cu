// Threads that synchronise without CUDA's barriers: a lock, a barrier of all blocks, and an old-style reduction in
// which the lanes of a warp exchange values through volatile shared memory.
#include "check.cuh"

// Every thread adds to a counter that a lock guards.
__global__ void locked(int *lock, volatile unsigned *total) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            *total = *total + threadIdx.x + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

// All blocks write, wait for all others, and read the next block's values.
__global__ void exchanged(volatile unsigned *arrived, volatile unsigned *words, unsigned *out) {
    unsigned block = blockIdx.x, blocks = gridDim.x, i = block * blockDim.x + threadIdx.x;
    words[i] = 3 * i + 1;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(const_cast<unsigned *>(arrived), 1u);
        while (*arrived < blocks)
            ;
    }
    __syncthreads();
    out[i] = words[(block + 1) % blocks * blockDim.x + threadIdx.x];
}

__global__ void folded(const unsigned *in, unsigned *out) {
    __shared__ unsigned sums[128];
    unsigned t = threadIdx.x;
    sums[t] = in[blockIdx.x * 128 + t];
    __syncthreads();
    if (t < 64)
        sums[t] += sums[t + 64];
    __syncthreads();
    if (t < 32) {
        volatile unsigned *s = sums;
        s[t] += s[t + 32];
        s[t] += s[t + 16];
        s[t] += s[t + 8];
        s[t] += s[t + 4];
        s[t] += s[t + 2];
        s[t] += s[t + 1];
    }
    if (t == 0)
        out[blockIdx.x] = sums[0];
}

int main(int argc, char **argv) {
    size_t blocks = size_argument(argc, argv, 3);
    std::vector<unsigned> words(128 * blocks), sums(blocks), neighbours(64 * blocks);
    for (unsigned i = 0; i < words.size(); ++i)
        words[i] = scramble(i) >> 8;
    for (unsigned i = 0; i < words.size(); ++i)
        sums[i / 128] += words[i];
    for (unsigned i = 0; i < neighbours.size(); ++i)
        neighbours[i] = 3 * ((i + 64) % static_cast<unsigned>(neighbours.size())) + 1;

    DeviceArray<unsigned> in(words), out(blocks), total(1), arrived(1), exchange(neighbours.size()), received(neighbours.size());
    DeviceArray<int> lock(1);
    total.clear();
    arrived.clear();
    lock.clear();
    locked<<<static_cast<unsigned>(blocks), 64>>>(lock.get(), total.get());
    LAUNCH_OK();
    exchanged<<<static_cast<unsigned>(blocks), 64>>>(arrived.get(), exchange.get(), received.get());
    LAUNCH_OK();
    folded<<<static_cast<unsigned>(blocks), 128>>>(in.get(), out.get());
    LAUNCH_OK();
    bool right = total.download()[0] == blocks * 64 * 65 / 2 && received.download() == neighbours && out.download() == sums;
    return finish("waiting", right, blocks);
}
