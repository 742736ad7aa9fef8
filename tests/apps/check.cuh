// Code shared by the test programs: calls that stop the program on failure, device arrays, the size argument and the
// final line. Every program computes its expected result on the host, prints one line that depends only on its
// arguments, and exits with 0 (right), 1 (wrong result) or 2 (a CUDA call failed).
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_OK(call)                                                                                                  \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess) {                                                                                   \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_));            \
            std::exit(2);                                                                                              \
        }                                                                                                              \
    } while (0)

// Call this after a launch. It reports a refused configuration, and then errors of the kernel.
#define LAUNCH_OK()                                                                                                    \
    do {                                                                                                               \
        CUDA_OK(cudaGetLastError());                                                                                   \
        CUDA_OK(cudaDeviceSynchronize());                                                                              \
    } while (0)

template <typename T> class DeviceArray {
  public:
    explicit DeviceArray(size_t count) : count_(count) { CUDA_OK(cudaMalloc(&data_, count * sizeof(T))); }
    explicit DeviceArray(const std::vector<T> &host) : DeviceArray(host.size()) {
        CUDA_OK(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    ~DeviceArray() { cudaFree(data_); }
    DeviceArray(const DeviceArray &) = delete;
    DeviceArray &operator=(const DeviceArray &) = delete;

    T *get() const { return data_; }
    void clear() { CUDA_OK(cudaMemset(data_, 0, count_ * sizeof(T))); }
    std::vector<T> download() const {
        std::vector<T> host(count_);
        CUDA_OK(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
        return host;
    }

  private:
    T *data_ = nullptr;
    size_t count_;
};

inline size_t size_argument(int argc, char **argv, size_t otherwise) {
    if (argc < 2)
        return otherwise;
    char *end = nullptr;
    unsigned long long value = std::strtoull(argv[1], &end, 10);
    if (value == 0 || *end != '\0') {
        std::fprintf(stderr, "%s: the size has to be a positive number, not '%s'\n", argv[0], argv[1]);
        std::exit(64);
    }
    return value;
}

inline int finish(const char *name, bool right, size_t n) {
    std::printf("%s: %s (n=%zu)\n", name, right ? "ok" : "WRONG", n);
    return right ? 0 : 1;
}

// Reproducible pseudo-random values.
inline unsigned scramble(unsigned x) {
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    return x ^ (x >> 16);
}

// In [0, 1), on a grid of 2^-24: every value is exact as a float.
inline float unit_float(unsigned x) { return (scramble(x) >> 8) * (1.0f / 16777216.0f); }

inline unsigned blocks_for(size_t n, unsigned block) { return static_cast<unsigned>((n + block - 1) / block); }
