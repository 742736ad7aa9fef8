// Two threads launch graphs of their own into one stream. Both graphs use the same scratch memory, which is right
// because launches into a stream come one after the other.
#include "check.cuh"

#include <thread>

__global__ void fill(int *scratch, int value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        scratch[i] = value;
}

__global__ void compare(const int *scratch, int value, int n, int *wrong) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && scratch[i] != value)
        atomicAdd(wrong, 1);
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 1000));
    DeviceArray<int> scratch(n), wrong(1);
    wrong.clear();
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA_OK(cudaDeviceSynchronize());
    auto work = [&](cudaGraphExec_t executable) {
        for (int round = 0; round < 10; ++round)
            CUDA_OK(cudaGraphLaunch(executable, stream));
    };
    cudaGraphExec_t executables[2];
    for (int value : {1, 2}) {
        cudaGraph_t graph;
        CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        // Several rounds, and numbers of their own, so that each graph has many instances to record.
        for (int round = 0; round < 4; ++round) {
            int number = 10 * round + value;
            fill<<<blocks_for(n, 128), 128, 0, stream>>>(scratch.get(), number, n);
            compare<<<blocks_for(n, 128), 128, 0, stream>>>(scratch.get(), number, n, wrong.get());
        }
        CUDA_OK(cudaStreamEndCapture(stream, &graph));
        CUDA_OK(cudaGraphInstantiate(&executables[value - 1], graph, 0));
        CUDA_OK(cudaGraphDestroy(graph));
    }
    std::thread other(work, executables[1]);
    work(executables[0]);
    other.join();
    CUDA_OK(cudaStreamSynchronize(stream));
    bool right = wrong.download()[0] == 0;
    for (cudaGraphExec_t executable : executables)
        CUDA_OK(cudaGraphExecDestroy(executable));
    CUDA_OK(cudaStreamDestroy(stream));
    return finish("interleaved", right, n);
}
