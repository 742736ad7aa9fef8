// A graph built from a kernel node without a capture, and launched: `nodes`. It launches nothing else.
#include "check.cuh"

__global__ void add(int *data, int amount, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] += amount;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 1000)), amount = 5;
    DeviceArray<int> data(static_cast<size_t>(n));
    data.clear();
    CUDA_OK(cudaDeviceSynchronize());
    int *values = data.get();
    void *arguments[] = {&values, &amount, &n};
    cudaKernelNodeParams kernel = {};
    kernel.func = reinterpret_cast<void *>(add);
    kernel.gridDim = blocks_for(n, 128);
    kernel.blockDim = 128;
    kernel.kernelParams = arguments;
    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaGraphExec_t executable;
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA_OK(cudaGraphCreate(&graph, 0));
    CUDA_OK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
    CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
    CUDA_OK(cudaGraphLaunch(executable, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaGraphExecDestroy(executable));
    CUDA_OK(cudaGraphDestroy(graph));
    CUDA_OK(cudaStreamDestroy(stream));
    bool right = true;
    for (int value : data.download())
        right = right && value == amount;
    return finish("nodes", right, static_cast<size_t>(n));
}
