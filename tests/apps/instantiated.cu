// A graph of many kernel nodes in rows of eight: `instantiated NODES`. Standard error gets the times of its
// instantiation, of its first launch and of a later one.
#include "check.cuh"

#include <chrono>

__global__ void add(int *data, int amount) { data[threadIdx.x] += amount; }

template <typename Work> static double milliseconds(Work work) {
    auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

int main(int argc, char **argv) {
    const int width = 8, later = 20;
    int nodes = static_cast<int>(size_argument(argc, argv, 200)), amount = 3;
    DeviceArray<int> data(32 * width);
    data.clear();
    CUDA_OK(cudaDeviceSynchronize());
    cudaGraph_t graph;
    CUDA_OK(cudaGraphCreate(&graph, 0));
    std::vector<cudaGraphNode_t> ends(width);
    for (int index = 0; index < nodes; ++index) {
        int row = index % width;
        int *values = data.get() + 32 * row;
        void *arguments[] = {&values, &amount};
        cudaKernelNodeParams kernel = {};
        kernel.func = reinterpret_cast<void *>(add);
        kernel.gridDim = 1;
        kernel.blockDim = 32;
        kernel.kernelParams = arguments;
        cudaGraphNode_t before = ends[row];
        CUDA_OK(cudaGraphAddKernelNode(&ends[row], graph, &before, before ? 1 : 0, &kernel));
    }
    cudaGraphExec_t executable;
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    double instantiation = milliseconds([&] { CUDA_OK(cudaGraphInstantiate(&executable, graph, 0)); });
    auto launch = [&] {
        CUDA_OK(cudaGraphLaunch(executable, stream));
        CUDA_OK(cudaStreamSynchronize(stream));
    };
    double first = milliseconds(launch), second = milliseconds(launch);
    double others = milliseconds([&] {
        for (int round = 0; round < later; ++round)
            launch();
    });
    std::fprintf(stderr, "instantiation %.2f ms, launches %.2f, %.2f and %.2f ms\n", instantiation, first, second,
                 others / later);
    CUDA_OK(cudaGraphExecDestroy(executable));
    CUDA_OK(cudaGraphDestroy(graph));
    CUDA_OK(cudaStreamDestroy(stream));
    bool right = true;
    std::vector<int> result = data.download();
    for (int row = 0; row < width; ++row)
        for (int i = 0; i < 32; ++i)
            right = right && result[32 * row + i] == (later + 2) * amount * ((nodes - row + width - 1) / width);
    return finish("instantiated", right, nodes);
}
