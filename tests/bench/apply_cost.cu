// `apply_cost [ROUNDS]`: gain and cost of `mneme apply`. Prints the median time of a kernel launched in small blocks,
// by events, and of successive launches of an empty kernel, by the clock. Also prints how much longer such a launch
// takes than that of a kernel with the same body but without a winner, alternating with it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if (cudaError_t status = (call)) {                                                                             \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));                                       \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

__global__ void empty(int) {}
__global__ void bare(int) {}

__global__ void triad(float *a, const float *b, const float *c, float s, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] = b[i] + s * c[i];
}

static double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? std::atoi(argv[1]) : 200, n = 1 << 24;
    float *a, *b, *c;
    OK(cudaMalloc(&a, n * sizeof(float)));
    OK(cudaMalloc(&b, n * sizeof(float)));
    OK(cudaMalloc(&c, n * sizeof(float)));
    OK(cudaMemset(b, 0, n * sizeof(float)));
    OK(cudaMemset(c, 0, n * sizeof(float)));
    cudaEvent_t start, stop;
    OK(cudaEventCreate(&start));
    OK(cudaEventCreate(&stop));
    std::vector<double> kernel, launches, others;
    for (int round = 0; round < rounds; ++round) {
        float milliseconds = 0;
        OK(cudaEventRecord(start));
        triad<<<n / 32, 32>>>(a, b, c, 2.0f, n);
        OK(cudaEventRecord(stop));
        OK(cudaDeviceSynchronize());
        OK(cudaEventElapsedTime(&milliseconds, start, stop));
        kernel.push_back(1e3 * milliseconds);
        // In the order 0 1 1 0, so neither always follows the other.
        for (int turn = 0; turn < 2; ++turn) {
            bool is_bare = (turn + round) % 2 == 1;
            auto begin = std::chrono::steady_clock::now();
            for (int i = 0; i < 500; ++i) {
                if (is_bare)
                    bare<<<1, 32>>>(round);
                else
                    empty<<<1, 32>>>(round);
            }
            std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
            (is_bare ? others : launches).push_back(spent.count() / 500);
            OK(cudaDeviceSynchronize());
        }
    }
    OK(cudaGetLastError());
    std::fprintf(stderr, "triad_us %.2f\nlaunch_ns %.1f\nmore_ns %.1f\n", median(kernel), median(launches),
                 median(launches) - median(others));
}
