// An executable graph that is launched unchanged, with a changed kernel node, and updated from another graph.
#include "driver.cuh"

__global__ void advance(int *data, int step, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] = data[i] * 3 + step;
}

static cudaGraph_t captured(cudaStream_t stream, int *data, int step, int n) {
    cudaGraph_t graph;
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    advance<<<blocks_for(n, 256), 256, 0, stream>>>(data, step, n);
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    return graph;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 5000));
    std::vector<int> expected(n);
    for (int i = 0; i < n; ++i)
        expected[i] = static_cast<int>(scramble(i) & 0xff);
    DeviceArray<int> data(expected);
    int *pointer = data.get();
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    // The copy above may still be running, and this stream does not wait for others.
    CUDA_OK(cudaStreamSynchronize(nullptr));
    auto step = [&](cudaGraphExec_t executable, int value) {
        CUDA_OK(cudaGraphLaunch(executable, stream));
        for (int &element : expected)
            element = static_cast<int>(static_cast<unsigned>(element) * 3u + static_cast<unsigned>(value));
    };

    cudaGraph_t graph = captured(stream, pointer, 1, n);
    cudaGraphExec_t executable;
    CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
    step(executable, 1);
    step(executable, 1);

    // Launches the node with another number, like a program that replays a graph with new arguments.
    CUgraphNode node;
    size_t count = 1;
    CUDA_KERNEL_NODE_PARAMS parameters;
    DRIVER_OK(cuGraphGetNodes, graph, &node, &count);
    DRIVER_OK(cuGraphKernelNodeGetParams, node, &parameters);
    int other = 2;
    void *arguments[] = {&pointer, &other, &n};
    parameters.kernelParams = arguments;
    DRIVER_OK(cuGraphExecKernelNodeSetParams, executable, node, &parameters);
    step(executable, 2);

    cudaGraph_t next = captured(stream, pointer, 3, n);
    CUgraphExecUpdateResultInfo result;
    DRIVER_OK(cuGraphExecUpdate, executable, next, &result);
    step(executable, 3);
    DRIVER_OK(cuGraphExecKernelNodeSetParams, executable, node, &parameters);
    step(executable, 2);
    CUDA_OK(cudaStreamSynchronize(stream));

    // The graph is unchanged.
    DRIVER_OK(cuGraphKernelNodeGetParams, node, &parameters);
    bool right = *static_cast<int *>(parameters.kernelParams[1]) == 1 && parameters.blockDimX == 256;
    CUDA_OK(cudaGraphExecDestroy(executable));
    CUDA_OK(cudaGraphDestroy(graph));
    CUDA_OK(cudaGraphDestroy(next));
    return finish("updated", right && data.download() == expected, n);
}
