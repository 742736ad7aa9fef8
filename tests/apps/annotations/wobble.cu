#include "wobble.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void wobble(double *values, unsigned long long *ticks, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned long long now = clock64();
    ticks[i] = now;
    values[i] = (i + 1) * (1 + 1e-12 * (now % 1021));
}

__global__ void wobble_pool(unsigned char *pool, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned long long now = clock64();
    reinterpret_cast<double *>(pool)[i] = (i + 1) * (1 + 1e-12 * (now % 1021));
    reinterpret_cast<unsigned long long *>(pool)[n + i] = now;
    reinterpret_cast<unsigned *>(pool)[4 * n + i] = i;
}

static int check(const double *values, int n) {
    std::vector<double> host(n);
    if (cudaMemcpy(host.data(), values, n * sizeof(double), cudaMemcpyDeviceToHost) != cudaSuccess)
        return 1;
    for (int i = 0; i < n; ++i)
        if (std::fabs(host[i] / (i + 1) - 1) > 1e-8)
            return 1;
    std::printf("wobble: ok (n=%d)\n", n);
    return std::fflush(stdout);
}

extern "C" void *wobble_allocate(size_t bytes) {
    void *memory = nullptr;
    return cudaMalloc(&memory, bytes) == cudaSuccess && cudaMemset(memory, 0, bytes) == cudaSuccess ? memory : nullptr;
}

extern "C" int wobble_run(double *values, unsigned long long *ticks, int n) {
    wobble<<<(n + 127) / 128, 128>>>(values, ticks, n);
    return check(values, n);
}

extern "C" int wobble_run_pool(void *pool, int n) {
    wobble_pool<<<(n + 127) / 128, 128>>>(static_cast<unsigned char *>(pool), n);
    return check(static_cast<double *>(pool), n);
}

extern "C" int wobble_is_silent(void) { return std::getenv("WOBBLE_SILENT") != nullptr; }
