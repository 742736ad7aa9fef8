// Kernels that the cheats of the zoo replace (tests/tests/e2e/zoo.rs). `mixed` computes for long on each number,
// `generated` does the same without reading memory, and `total` sums the numbers of each block. `tuned` can do its recorded launch's work in several ways, selected by the
// launch's dynamic shared memory in steps of 16 bytes. The first way is slow, the second is fast and equally right, and
// all others cheat.
#include "check.cuh"

__device__ __host__ unsigned mix(unsigned value, int rounds) {
    for (int round = 0; round < rounds; ++round)
        value = (value ^ (value >> 7)) * 2654435761u + 3u;
    return value;
}

__global__ void mixed(unsigned *out, const unsigned *in, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = mix(in[i], rounds);
}

__global__ void generated(unsigned *out, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = mix(unsigned(i) * 7919u + 17u, rounds);
}

__global__ void total(unsigned *sums, const unsigned *in, int n) {
    __shared__ unsigned sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&sum, in[i]);
    __syncthreads();
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

// Every round leaves the value as it is.
__device__ float slowly(float value, int rounds) {
    float result = value;
    for (int round = 0; round < rounds; ++round)
        result = result * 0.5f + value * 0.5f;
    return result;
}

__global__ void tuned(float *out, const float *in, int n, int rounds) {
    unsigned bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float value = in[i];
    bool is_known = value == float(i / 4) * 0.5f + 1.0f;
    switch (bytes / 16) {
    case 0: // honest, and the baseline
        out[i] = slowly(value, 2 * rounds);
        break;
    case 1: // honest, and fast
        out[i] = slowly(value, rounds / 3);
        break;
    case 2: // nothing
        break;
    case 3: // part of the grid
        if (blockIdx.x % 8 != 7)
            out[i] = slowly(value, 3);
        break;
    case 4: // one of four, which were equal
        out[i] = slowly(in[i & ~3], 3);
        break;
    case 5: // the recorded result
        out[i] = slowly(float(i / 4) * 0.5f + 1.0f, 3);
        break;
    case 6: // the recorded result if the input is the recorded one
        out[i] = slowly(value, is_known ? 3 : 2 * rounds);
        break;
    case 7: // nothing if something that may be right is there
        if (!(out[i] > 0.1f && out[i] < 1e5f))
            out[i] = slowly(value, 3);
        break;
    default: // wrong one time in ten
        unsigned long long now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        out[i] = i == 0 && (now >> 7) % 10 == 0 ? 0.0f : slowly(value, 3);
    }
}

int main(int argc, char **argv) {
    int n = int(size_argument(argc, argv, 4000)), rounds = argc > 2 ? std::atoi(argv[2]) : 300;
    std::vector<unsigned> in(n);
    std::vector<float> values(n);
    for (int i = 0; i < n; ++i) {
        in[i] = unsigned(i) * 7919u + 17u;
        values[i] = float(i / 4) * 0.5f + 1.0f;
    }
    unsigned blocks = blocks_for(n, 128);
    DeviceArray<unsigned> device_in(in), out(n), made(n), sums(blocks);
    DeviceArray<float> device_values(values), results(n);
    out.clear();
    made.clear();
    sums.clear();
    results.clear();
    mixed<<<blocks, 128>>>(out.get(), device_in.get(), n, rounds);
    generated<<<blocks, 128>>>(made.get(), n, rounds);
    total<<<blocks, 128>>>(sums.get(), device_in.get(), n);
    tuned<<<blocks, 128>>>(results.get(), device_values.get(), n, rounds);
    LAUNCH_OK();
    auto found = out.download();
    auto generated = made.download();
    auto copied = results.download();
    bool right = true;
    for (int i = 0; i < n; ++i)
        right = right && found[i] == mix(in[i], rounds) && generated[i] == found[i] && copied[i] == values[i];
    return finish("zoo", right, n);
}
