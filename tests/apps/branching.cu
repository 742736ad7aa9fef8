// A graph whose branches wait for each other: in one a kernel waits for a flag, which the kernel of the other sets.
#include "check.cuh"

#include <unistd.h>

__global__ void wait_for(const volatile unsigned *flag, unsigned wanted, unsigned *out) {
    while (*flag != wanted)
        ;
    out[threadIdx.x] = 2 * *flag + threadIdx.x;
}

__global__ void hoist(volatile unsigned *flag, unsigned value) { *flag = value; }

__global__ void merge(const unsigned *in, volatile unsigned *flag, unsigned *out) {
    out[threadIdx.x] += in[threadIdx.x];
    if (threadIdx.x == 0)
        *flag = 0;
}

int main() {
    alarm(150);
    const unsigned wanted = 21;
    cudaStream_t stream, branch;
    cudaEvent_t forked, joined;
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithFlags(&branch, cudaStreamNonBlocking));
    CUDA_OK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
    CUDA_OK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    DeviceArray<unsigned> flag(1), waited(32), out(32);
    flag.clear();
    out.clear();
    CUDA_OK(cudaDeviceSynchronize());
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CUDA_OK(cudaEventRecord(forked, stream));
    CUDA_OK(cudaStreamWaitEvent(branch, forked, 0));
    wait_for<<<1, 32, 0, stream>>>(flag.get(), wanted, waited.get());
    hoist<<<1, 1, 0, branch>>>(flag.get(), wanted);
    CUDA_OK(cudaEventRecord(joined, branch));
    CUDA_OK(cudaStreamWaitEvent(stream, joined, 0));
    merge<<<1, 32, 0, stream>>>(waited.get(), flag.get(), out.get());
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
    const unsigned rounds = 3;
    for (unsigned round = 0; round < rounds; ++round) {
        CUDA_OK(cudaGraphLaunch(executable, stream));
        CUDA_OK(cudaStreamSynchronize(stream));
    }
    CUDA_OK(cudaGraphExecDestroy(executable));
    CUDA_OK(cudaGraphDestroy(graph));
    bool right = true;
    std::vector<unsigned> result = out.download();
    for (unsigned i = 0; i < 32; ++i)
        right = right && result[i] == rounds * (2 * wanted + i);
    return finish("branching", right, 32);
}
