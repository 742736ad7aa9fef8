// Kernels with one fault each, and one without a fault that uses the same operations. No launch here faults on a
// GPU: an access out of bounds of one allocation is inside of another one or of the recorder's slab, and an access
// out of bounds of one shared variable hits another one. Without such a neighbour (past all shared memory, past a
// thread's stack, a misaligned address) the launch here is sound, and a replay in another shape, named in the mark,
// is faulty.
#include "check.cuh"

constexpr int THREADS = 64;

struct Record {
    int values[8];
};

// One element too many.
__global__ void beyond(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        out[i] = i; // fault: beyond
}

// One element before the first.
__global__ void before(const int *in, int *out) {
    int i = threadIdx.x;
    out[i] = in[i - 1]; // fault: before
}

__global__ void atomic_beyond(int *out, int n) {
    if (threadIdx.x == 3)
        atomicAdd(out + n, 1); // fault: atomic_beyond
}

// Only the beginning of a structure is in bounds.
__global__ void copy_beyond(const Record *in, int *out, int n) {
    *reinterpret_cast<Record *>(out + n - 4) = *in; // fault: copy_beyond
}

__global__ void vector_beyond(const float4 *in, float *out, int n) {
    float4 four = in[n / 4]; // fault: vector_beyond
    out[threadIdx.x] = four.w;
}

__global__ void shared_beyond(int *out) {
    __shared__ int first[THREADS], second[THREADS];
    second[threadIdx.x] = 0;
    first[threadIdx.x + 1] = threadIdx.x; // fault: shared_beyond
    __syncthreads();
    out[threadIdx.x] = first[threadIdx.x ? threadIdx.x : 1] + second[0];
}

// Faulty with less dynamic shared memory.
__global__ void dynamic_beyond(int *out, int n) {
    extern __shared__ int scratch[];
    scratch[n - threadIdx.x] = threadIdx.x; // fault: dynamic_beyond
    __syncthreads();
    out[threadIdx.x] = scratch[1];
}

// Faulty with more threads.
__global__ void local_beyond(int *out, int n) {
    int table[4] = {1, 2, 3, 4};
    out[threadIdx.x] = table[threadIdx.x / n]; // fault: local_beyond
}

// Faulty with more threads: both use as many bytes as there are threads. (The `memset` of HIP 5.2 is a loop.)
__global__ void fill_beyond(int *out) {
    char bytes[16];
    __builtin_memset(bytes, 1, blockDim.x); // fault: fill_beyond
    out[threadIdx.x] = bytes[threadIdx.x % 16];
}

__global__ void element_beyond(const Record *in, int *out, int n) {
    Record table[2] = {};
    table[threadIdx.x / n] = *in; // fault: element_beyond
    out[threadIdx.x] = table[threadIdx.x % 2].values[0];
}

__global__ void shared_unset(int *out) {
    __shared__ int values[THREADS];
    if (threadIdx.x % 2 == 0)
        values[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = values[threadIdx.x]; // fault: shared_unset
}

// Elements of eight bytes: one access, but two words of the shadow.
__global__ void wide_unset(int *out) {
    __shared__ double values[THREADS];
    if (threadIdx.x % 2 == 0)
        values[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = static_cast<int>(values[threadIdx.x]); // fault: wide_unset
}

__global__ void wide_race(int *out) {
    __shared__ double values[THREADS];
    values[threadIdx.x] = threadIdx.x; // other: wide_race
    out[threadIdx.x] = static_cast<int>(values[(threadIdx.x + 32) % THREADS]); // fault: wide_race
}

__global__ void local_unset(int *out, int n) {
    int value;
    if (threadIdx.x < n)
        value = threadIdx.x;
    out[threadIdx.x] = value; // fault: local_unset
}

__device__ __noinline__ void set_if(bool set, int *value) {
    if (set)
        *value = 1;
}

// A function sets it, or not.
__global__ void callee_unset(int *out, int n) {
    int value;
    set_if(threadIdx.x < n, &value);
    out[threadIdx.x] = value; // fault: callee_unset
}

// Its target no longer exists.
__global__ void outlived(int *out) {
    const int *pointer;
    {
        int value = threadIdx.x;
        pointer = &value;
    }
    out[threadIdx.x] = *pointer; // fault: outlived
}

// A missing barrier: a thread reads a value that another warp writes.
__global__ void race(int *out) {
    __shared__ int values[THREADS];
    values[threadIdx.x] = threadIdx.x; // other: race
    out[threadIdx.x] = values[(threadIdx.x + 32) % THREADS]; // fault: race
}

// Within a warp.
__global__ void warp_race(int *out) {
    __shared__ int values[THREADS];
    values[threadIdx.x] = threadIdx.x; // other: warp_race
    out[threadIdx.x] = values[threadIdx.x ^ 1]; // fault: warp_race
}

// The usual sum without a barrier: a lane reads a value before another has written it, or after.
__global__ void sum_race(int *out) {
    __shared__ int values[32];
    values[threadIdx.x] = threadIdx.x;
    __syncwarp();
    for (int offset = 16; offset > 0; offset /= 2)
        if (threadIdx.x < offset)
            values[threadIdx.x] += values[threadIdx.x + offset]; // fault: sum_race
    out[threadIdx.x] = values[threadIdx.x];
}

// The first write races with the others' atomics.
__global__ void count_race(int *out) {
    __shared__ int count;
    if (threadIdx.x == 0)
        count = 0; // other: count_race
    atomicAdd(&count, 1); // fault: count_race
    __syncthreads();
    out[threadIdx.x] = count;
}

// The next round's write races with this round's reads.
__global__ void round_race(int *out) {
    __shared__ int value;
    int sum = 0;
    for (int round = 0; round < 4; ++round) {
        if (threadIdx.x == round)
            value = round; // fault: round_race
        __syncthreads();
        sum += value; // other: round_race
    }
    out[threadIdx.x] = sum;
}

// Values with the same halves in another order, or with differences in the same bits.
__global__ void value_race(int *out) {
    __shared__ int flag;
    if (threadIdx.x % 32 == 0)
        flag = threadIdx.x < 32 ? 0 : -1; // fault: value_race
    __syncthreads();
    out[threadIdx.x] = flag;
}

__global__ void half_race(int *out) {
    __shared__ int flag;
    if (threadIdx.x % 32 == 0)
        flag = threadIdx.x < 32 ? 0x50003 : 0x30005; // fault: half_race
    __syncthreads();
    out[threadIdx.x] = flag;
}

// The shadows of all blocks together are large.
__global__ void late(int *out) {
    extern __shared__ int scratch[];
    if (blockIdx.x + 1 < gridDim.x)
        scratch[0] = blockIdx.x;
    if (blockIdx.x % 100 == 99)
        out[blockIdx.x / 100] = scratch[0]; // fault: late
}

// Faulty with more threads.
__global__ void misaligned(const char *in, int *out, int n) {
    out[threadIdx.x] = *reinterpret_cast<const int *>(in + threadIdx.x * (n / blockDim.x)); // fault: misaligned
}

// The right versions of all of the above, with every kind of synchronisation.
__global__ void sound(const int *in, int *out, int n) {
    __shared__ int values[THREADS];
    __shared__ unsigned lock, total;
    __shared__ unsigned char bytes[THREADS];
    __shared__ bool flag;
    extern __shared__ int scratch[];
    int thread = threadIdx.x, table[4];
    for (int i = 0; i < 4; ++i)
        table[i] = in[(thread + i) % n];
    if (thread == 0)
        lock = total = 0;
    flag = false;
    __syncthreads();
    // All write the same value.
    flag = true;
    // Neighbouring bytes of one word.
    bytes[thread] = thread;
    // Neighbours in a warp.
    values[thread] = table[thread % 4];
    __syncwarp();
    int sum = values[thread ^ 1];
    __syncwarp();
    values[thread] = sum;
    // One after the other with a lock. Lanes of a warp would wait for one another.
    if (thread % warpSize == 0) {
        while (atomicCAS(&lock, 0u, 1u) != 0) {
        }
        __threadfence_block();
        total = total + thread;
        __threadfence_block();
        atomicExch(&lock, 0u);
    }
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    scratch[thread] = sum;
    __syncthreads();
    sum = scratch[THREADS - 1 - thread] + values[(thread + 32) % THREADS] + bytes[(thread + 1) % THREADS] + static_cast<int>(total) + flag;
    // A compare-and-swap begins with a plain read.
    unsigned seen = lock, expected;
    do {
        expected = seen;
        seen = atomicCAS(&lock, expected, expected + 1);
    } while (seen != expected);
    out[thread] = sum;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 100));
    DeviceArray<Record> record(1);
    DeviceArray<int> in(std::vector<int>(static_cast<size_t>(n) + 28, 1)), out(static_cast<size_t>(n));
    beyond<<<4, THREADS>>>(out.get(), n);
    before<<<1, THREADS>>>(in.get(), out.get());
    atomic_beyond<<<1, THREADS>>>(out.get(), n);
    copy_beyond<<<1, 1>>>(record.get(), out.get(), n);
    vector_beyond<<<1, THREADS>>>(reinterpret_cast<float4 *>(out.get()), reinterpret_cast<float *>(in.get()), n);
    // Whichever of the two variables comes last, other memory follows it.
    shared_beyond<<<1, THREADS, THREADS * sizeof(int)>>>(out.get());
    dynamic_beyond<<<1, THREADS, (THREADS + 1) * sizeof(int)>>>(out.get(), THREADS);
    local_beyond<<<1, THREADS>>>(out.get(), THREADS / 4);
    fill_beyond<<<1, 16>>>(out.get());
    element_beyond<<<1, 16>>>(record.get(), out.get(), 8);
    shared_unset<<<2, THREADS>>>(out.get());
    wide_unset<<<1, THREADS>>>(out.get());
    wide_race<<<1, THREADS>>>(out.get());
    local_unset<<<1, THREADS>>>(out.get(), 60);
    callee_unset<<<1, THREADS>>>(out.get(), 60);
    outlived<<<1, THREADS>>>(out.get());
    race<<<1, THREADS>>>(out.get());
    warp_race<<<1, 32>>>(out.get());
    sum_race<<<1, 32>>>(out.get());
    count_race<<<1, THREADS>>>(out.get());
    round_race<<<1, THREADS>>>(out.get());
    value_race<<<1, THREADS>>>(out.get());
    half_race<<<1, THREADS>>>(out.get());
    late<<<700, 1, 16384>>>(out.get());
    sound<<<2, THREADS, THREADS * sizeof(int)>>>(in.get(), out.get(), n);
    misaligned<<<1, 8>>>(reinterpret_cast<char *>(in.get()), out.get(), 8 * sizeof(int));
    LAUNCH_OK();
    return finish("faulty", true, static_cast<size_t>(n));
}
