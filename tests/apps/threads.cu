// Host threads that allocate, copy and launch concurrently, on their default streams or on new ones.
#include "check.cuh"
#include <thread>

template <int Which> __global__ void step(unsigned *data, unsigned rounds, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned value = data[i];
    for (unsigned round = 0; round < rounds; ++round)
        value = value * 1664525u + 1013904223u + Which;
    data[i] = value;
}

static unsigned expected(unsigned value, unsigned rounds, int which) {
    for (unsigned round = 0; round < rounds; ++round)
        value = value * 1664525u + 1013904223u + which;
    return value;
}

template <int Which> static void work(int thread, int n, bool *right) {
    cudaStream_t stream = cudaStreamPerThread;
    if (thread % 2)
        CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    std::vector<unsigned> x(n), result(n);
    for (int i = 0; i < n; ++i)
        x[i] = scramble(static_cast<unsigned>(thread * n + i));
    *right = true;
    for (unsigned rounds = 1; rounds <= 5; ++rounds) {
        unsigned *data;
        CUDA_OK(cudaMalloc(reinterpret_cast<void **>(&data), n * sizeof(unsigned)));
        CUDA_OK(cudaMemcpyAsync(data, x.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice, stream));
        step<Which><<<blocks_for(n, 64), 64, 0, stream>>>(data, rounds, n);
        CUDA_OK(cudaGetLastError());
        CUDA_OK(cudaMemcpyAsync(result.data(), data, n * sizeof(unsigned), cudaMemcpyDeviceToHost, stream));
        CUDA_OK(cudaStreamSynchronize(stream));
        CUDA_OK(cudaFree(data));
        for (int i = 0; i < n; ++i)
            *right = *right && result[i] == expected(x[i], rounds, Which);
    }
    if (thread % 2)
        CUDA_OK(cudaStreamDestroy(stream));
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 500));
    bool right[10];
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 10; ++thread)
        threads.emplace_back(thread % 3 == 0 ? work<0> : thread % 3 == 1 ? work<1> : work<2>, thread, n, &right[thread]);
    bool all = true;
    for (int thread = 0; thread < 10; ++thread) {
        threads[thread].join();
        all = all && right[thread];
    }
    return finish("threads", all, n);
}
