// `live MIB ZEROS LAUNCHES WRITTEN [ALLOCATIONS]`: MIB of live memory, ZEROS per cent of it zero and the rest random,
// in ALLOCATIONS pieces (1); LAUNCHES launches that differ in a scalar argument, each writing WRITTEN MiB of new random
// data. Prints milliseconds of each launch with its synchronisation, and seconds of everything.
#include "../apps/check.cuh"

#include <algorithm>
#include <chrono>

__device__ unsigned long long scrambled(unsigned long long x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

__global__ void fill(unsigned long long *out, size_t n, unsigned long long seed) {
    size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
        out[i] = scrambled(i + seed * 0x9e3779b97f4a7c15ull);
}

__global__ void rewrite(unsigned long long *out, size_t n, unsigned long long seed) {
    size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
        out[i] = scrambled(out[i] + seed);
}

int main(int argc, char **argv) {
    using clock = std::chrono::steady_clock;
    auto seconds = [](clock::time_point since) { return std::chrono::duration<double>(clock::now() - since).count(); };
    auto number = [&](int index, double otherwise) { return argc > index ? std::atof(argv[index]) : otherwise; };
    size_t bytes = static_cast<size_t>(number(1, 64)) << 20;
    double zeros = number(2, 0) / 100;
    int launches = static_cast<int>(number(3, 1));
    size_t pieces = static_cast<size_t>(number(5, 1)), piece = bytes / pieces / 8 * 8;
    size_t written = std::min(piece, static_cast<size_t>(number(4, 1) * (1 << 20))) / 8;
    CUDA_OK(cudaFree(nullptr));
    auto start = clock::now();
    std::vector<unsigned long long *> memory(pieces);
    for (size_t i = 0; i < pieces; ++i) {
        CUDA_OK(cudaMalloc(&memory[i], piece));
        size_t full = static_cast<size_t>(piece * (1 - zeros)) / 8;
        CUDA_OK(cudaMemset(memory[i], 0, piece));
        fill<<<1024, 256>>>(memory[i], full, i + 1);
    }
    LAUNCH_OK();
    std::printf("prepared_s %.3f\n", seconds(start));
    for (int i = 0; i < launches; ++i) {
        auto begin = clock::now();
        rewrite<<<1024, 256>>>(memory[0], written, i);
        LAUNCH_OK();
        std::printf("launch_%d_ms %.3f\n", i, seconds(begin) * 1e3);
    }
    std::printf("all_s %.3f\n", seconds(start));
}
