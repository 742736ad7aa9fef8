// A simulation of many steps, each a launch with a different argument. It can also do what programs do to a
// recorder:
//     steps ROUNDS abort        a kernel aborts half-way, which the program reports
//     steps ROUNDS fork-first   the program forks before it uses the device, and both processes run everything
//     steps ROUNDS fork-exit    it forks afterwards, and the child ends by exit; fork-_exit: by _exit
//     steps ROUNDS file-limit   after the first launch the program lowers its limit on file sizes to 256 KiB
//     steps ROUNDS threads      ten threads, each with its own stream and memory
//     steps ROUNDS data NUMBER  different memory for each number, with the same arguments
#include "check.cuh"

#include <cassert>
#include <cstring>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

constexpr int COUNT = 20000;

__global__ void step(unsigned *values, int n, unsigned round) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = (values[i] ^ values[i] >> 9) * 2654435761u + round;
}

__global__ void fail(const unsigned *values) { assert(values == nullptr); }

static bool simulate(unsigned rounds, unsigned seed, const char *mode, unsigned data = 0) {
    std::vector<unsigned> values(COUNT);
    for (int i = 0; i < COUNT; ++i)
        values[i] = scramble(i + seed + data);
    DeviceArray<unsigned> device_values(values);
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    // The copy above may still be running, and this stream does not wait for others.
    CUDA_OK(cudaStreamSynchronize(nullptr));
    for (unsigned round = 0; round < rounds; ++round) {
        if (std::strcmp(mode, "abort") == 0 && round == rounds / 2)
            fail<<<1, 1, 0, stream>>>(device_values.get());
        step<<<blocks_for(COUNT, 256), 256, 0, stream>>>(device_values.get(), COUNT, seed + round);
        const rlimit limit{256 << 10, 256 << 10};
        if (std::strcmp(mode, "file-limit") == 0 && round == 0 && setrlimit(RLIMIT_FSIZE, &limit) != 0)
            std::exit(3);
    }
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaStreamDestroy(stream));
    for (unsigned &value : values)
        for (unsigned round = 0; round < rounds; ++round)
            value = (value ^ value >> 9) * 2654435761u + seed + round;
    return device_values.download() == values;
}

static bool child_succeeds(pid_t child) {
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv) {
    unsigned rounds = static_cast<unsigned>(size_argument(argc, argv, 3));
    const char *mode = argc > 2 ? argv[2] : "";
    bool right = true;
    if (std::strcmp(mode, "threads") == 0) {
        std::vector<std::thread> threads;
        bool each[10] = {};
        for (unsigned thread = 0; thread < 10; ++thread)
            threads.emplace_back([&each, thread, rounds] { each[thread] = simulate(rounds, 1000 * (thread + 1), ""); });
        for (std::thread &thread : threads)
            thread.join();
        for (bool one : each)
            right = right && one;
    } else if (std::strcmp(mode, "data") == 0) {
        right = simulate(rounds, 0, "", argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 0);
    } else if (std::strcmp(mode, "fork-first") == 0) {
        pid_t child = fork();
        if (child == 0)
            std::exit(simulate(rounds, 500, "") ? 0 : 1);
        right = simulate(rounds, 0, "");
        right = child_succeeds(child) && right;
    } else {
        right = simulate(rounds, 0, mode);
        if (std::strncmp(mode, "fork-", 5) == 0) {
            pid_t child = fork();
            if (child == 0)
                std::strcmp(mode, "fork-exit") == 0 ? std::exit(0) : _exit(0);
            right = child_succeeds(child) && right && simulate(rounds, 700, "");
        }
    }
    return finish("steps", right, rounds);
}
