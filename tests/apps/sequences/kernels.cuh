// The kernels of the sequences, and their launches. Each kernel's first argument is the launch's number, so every
// launch is a separate instance. Each kernel reaches memory in a different way.
#pragma once

#include "world.cuh"

#pragma clang diagnostic ignored "-Wdeprecated-declarations"

constexpr unsigned ENTRIES = 16, CELLS = 64, MOST_WORDS = 1500;

__device__ Word counters[CELLS];
__device__ Word settings[CELLS];
__constant__ Word factors[16];
__device__ const Word *anchor;

struct Node {
    const Node *next;
    const Word *data;
};

// Pointers between numbers, by value.
struct Pack {
    double scale;
    Word *out;
    unsigned n;
    const Word *in;
    Word pad[6];
    Word *more;
};

#define EACH(i, n) (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += gridDim.x * blockDim.x)

extern "C" {
__global__ void bump(uint64_t number, Word *data, unsigned n) {
    for EACH(i, n)
        data[i] = 3 * data[i] + i + static_cast<Word>(number);
}

__global__ void through(uint64_t number, Word *const *table, unsigned count, unsigned n) {
    for (unsigned entry = 0; entry < count; ++entry)
        for EACH(i, n)
            table[entry][i] ^= static_cast<Word>(mixed(number + i)) + entry;
}

__global__ void gather(uint64_t number, const Word *const *table, unsigned count, Word *out, unsigned n) {
    for EACH(i, n) {
        Word sum = static_cast<Word>(number);
        for (unsigned entry = 0; entry < count; ++entry)
            sum = 5 * sum + table[entry][i];
        out[i] += sum;
    }
}

__global__ void follow(uint64_t number, const Node *head, Word *out, unsigned n) {
    for EACH(i, n) {
        Word sum = static_cast<Word>(number);
        for (const Node *node = head; node; node = node->next)
            sum = 7 * sum + node->data[i];
        out[i] = sum;
    }
}

__global__ void scale(uint64_t number, Word *out, unsigned n) {
    for EACH(i, n) {
        out[i] = out[i] * factors[i % 16] + settings[i % CELLS];
        if (i < CELLS)
            counters[i] += static_cast<Word>(number) + i;
    }
}

__global__ void anchored(uint64_t number, Word *out, unsigned n) {
    for EACH(i, n)
        out[i] = 3 * anchor[i] + static_cast<Word>(number);
}

__global__ void packed(uint64_t number, Pack pack) {
    for EACH(i, pack.n) {
        pack.out[i] += pack.in[i] * static_cast<Word>(pack.scale) + pack.pad[i % 6];
        pack.more[i] ^= pack.out[i] + static_cast<Word>(number);
    }
}

__global__ void tally(uint64_t number, Word *bins, const Word *in, unsigned n) {
    for EACH(i, n)
        atomicAdd(&bins[in[i] % CELLS], 1 + static_cast<Word>(number % 7));
}

// Reverses each group of words; a group has as many words as a block has threads.
__global__ void reverse(uint64_t number, Word *data, unsigned groups) {
    extern __shared__ Word scratch[];
    for (unsigned group = blockIdx.x; group < groups; group += gridDim.x) {
        Word *own = data + group * blockDim.x;
        scratch[threadIdx.x] = own[threadIdx.x];
        __syncthreads();
        own[threadIdx.x] = scratch[blockDim.x - 1 - threadIdx.x] + static_cast<Word>(number);
        __syncthreads();
    }
}

// Takes a while in a single thread.
__global__ void ponder(uint64_t number, Word *out, unsigned rounds) {
    if (blockIdx.x || threadIdx.x)
        return;
    uint64_t state = number;
    for (unsigned round = 0; round < rounds; ++round)
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    *out += static_cast<Word>(state >> 32);
}

// Waits for the flag.
__global__ void await(uint64_t number, const volatile Word *flag, Word *out, unsigned n) {
    while (!*flag) {
    }
    __threadfence_system();
    for EACH(i, n)
        out[i] += static_cast<Word>(number) + i;
}

__global__ void announce(uint64_t number, volatile Word *flag) {
    __threadfence_system();
    *flag = static_cast<Word>(number) | 1;
}

// Answers a number of the host's questions. Runs as one block.
__global__ void converse(uint64_t number, volatile Word *words, Word *out, unsigned rounds, unsigned n) {
    if (blockIdx.x)
        return;
    for (unsigned round = 1; round <= rounds; ++round) {
        while (words[0] < round) {
        }
        __threadfence_system();
        for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
            out[i] = 3 * out[i] + round + static_cast<Word>(number);
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence_system();
            words[1] = round;
        }
    }
}
}

// The first ones finish at once.
enum Kernel { BUMP, THROUGH, GATHER, FOLLOW, SCALE, ANCHORED, PACKED, TALLY, REVERSE, KERNELS, PONDER = KERNELS, AWAIT, ANNOUNCE, CONVERSE };
inline const char *const KERNEL_NAMES[] = {"bump", "through", "gather", "follow", "scale", "anchored", "packed", "tally", "reverse", "ponder", "await", "announce", "converse"};
inline const void *const KERNEL_SYMBOLS[] = {
    reinterpret_cast<const void *>(bump),   reinterpret_cast<const void *>(through),  reinterpret_cast<const void *>(gather),
    reinterpret_cast<const void *>(follow), reinterpret_cast<const void *>(scale),    reinterpret_cast<const void *>(anchored),
    reinterpret_cast<const void *>(packed), reinterpret_cast<const void *>(tally),    reinterpret_cast<const void *>(reverse),
    reinterpret_cast<const void *>(ponder), reinterpret_cast<const void *>(await),    reinterpret_cast<const void *>(announce),
    reinterpret_cast<const void *>(converse)};

// A kernel's function in a loaded form of the code, or null if the driver has none.
inline CUfunction function_of(World &world, const Code &code, Kernel kernel) {
    if (code.form == Code::RUNTIME) {
        cudaFunction_t function = nullptr;
        CUDA_OK(cudaGetFuncBySymbol(&function, KERNEL_SYMBOLS[kernel]));
        return reinterpret_cast<CUfunction>(function);
    }
    CUfunction function = nullptr;
    if (code.form == Code::MODULE) {
        CALL(cuModuleGetFunction, &function, code.module, KERNEL_NAMES[kernel]);
        return function;
    }
    CUkernel found = nullptr;
    CALL(cuLibraryGetKernel, &found, code.library, KERNEL_NAMES[kernel]);
    return reinterpret_cast<CUfunction>(found);
}

// The address of a variable in a loaded form of the code.
inline CUdeviceptr variable_of(World &world, const Code &code, const char *name, const void *symbol) {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    switch (code.form) {
    case Code::RUNTIME: {
        void *found = nullptr;
        CUDA_OK(cudaGetSymbolAddress(&found, symbol));
        return reinterpret_cast<CUdeviceptr>(found);
    }
    case Code::MODULE: CALL(cuModuleGetGlobal, &address, &bytes, code.module, name); break;
    case Code::LIBRARY: CALL(cuLibraryGetGlobal, &address, &bytes, code.library, name); break;
    }
    world.say(" %zu", bytes);
    return address;
}

// A form of the code that the current context can use.
inline int some_code(World &world, Random &random) {
    std::vector<int> all;
    for (size_t index = 0; index < world.codes.size(); ++index)
        if (world.codes[index].alive && (world.codes[index].context < 0 || world.codes[index].context == world.current))
            all.push_back(static_cast<int>(index));
    return random.among(all);
}

// Arguments of a launch, as pointers to values and as the buffer with all of them.
class Arguments {
  public:
    template <typename T> Arguments &add(const T &value) {
        size_t at = (size_ + alignof(T) - 1) / alignof(T) * alignof(T);
        std::memcpy(bytes_ + at, &value, sizeof(T));
        pointers_[count_++] = bytes_ + at;
        size_ = at + sizeof(T);
        return *this;
    }
    void **pointers() { return pointers_; }
    void *bytes() { return bytes_; }
    size_t *size() { return &size_; }

  private:
    alignas(16) char bytes_[256];
    void *pointers_[8];
    size_t size_ = 0;
    unsigned count_ = 0;
};

// Launches in one of the driver's ways.
inline void launch(World &world, Random &random, CUfunction function, Arguments &arguments, unsigned block, unsigned shared, CUstream stream,
                   bool captured) {
    unsigned grid = static_cast<unsigned>(1 + random.below(3));
    CUresult status = CUDA_SUCCESS;
    switch (random.below(captured ? 3 : 5)) {
    case 0: {
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, arguments.bytes(), CU_LAUNCH_PARAM_BUFFER_SIZE, arguments.size(), CU_LAUNCH_PARAM_END};
        status = CALL(cuLaunchKernel, function, grid, 1, 1, block, 1, 1, shared, stream, nullptr, extra);
        break;
    }
    case 1: {
        CUlaunchConfig configuration = {};
        configuration.gridDimX = grid;
        configuration.gridDimY = configuration.gridDimZ = configuration.blockDimY = configuration.blockDimZ = 1;
        configuration.blockDimX = block;
        configuration.sharedMemBytes = shared;
        configuration.hStream = stream;
        status = CALL(cuLaunchKernelEx, &configuration, function, arguments.pointers(), nullptr);
        break;
    }
    case 4: status = CALL(cuLaunchCooperativeKernel, function, 1, 1, 1, block, 1, 1, shared, stream, arguments.pointers()); break;
    default: status = CALL(cuLaunchKernel, function, grid, 1, 1, block, 1, 1, shared, stream, arguments.pointers(), nullptr);
    }
    world.launches += status == CUDA_SUCCESS && !captured;
}

inline uint64_t launch_number(World &world) {
    return world.seed << 16 | static_cast<uint64_t>(world.thread) << 12 | ++world.launches_made;
}
