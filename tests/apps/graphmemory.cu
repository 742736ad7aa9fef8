// Memory that a graph allocates but does not free: later kernels use it.
#include "check.cuh"

__global__ void twice(const int *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 2 * in[i];
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 3000));
    std::vector<int> values(n);
    for (int i = 0; i < n; ++i)
        values[i] = scramble(i) >> 8;

    cudaGraph_t graph;
    CUDA_OK(cudaGraphCreate(&graph, 0));
    cudaMemAllocNodeParams wanted{};
    wanted.poolProps.allocType = cudaMemAllocationTypePinned;
    wanted.poolProps.location = {cudaMemLocationTypeDevice, 0};
    wanted.bytesize = n * sizeof(int);
    cudaGraphNode_t allocation, copy;
    CUDA_OK(cudaGraphAddMemAllocNode(&allocation, graph, nullptr, 0, &wanted));
    int *kept = static_cast<int *>(wanted.dptr);
    CUDA_OK(cudaGraphAddMemcpyNode1D(&copy, graph, &allocation, 1, kept, values.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    cudaGraphExec_t executable;
    CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
    CUDA_OK(cudaGraphLaunch(executable, 0));
    CUDA_OK(cudaDeviceSynchronize());

    DeviceArray<int> out(n);
    twice<<<blocks_for(n, 128), 128>>>(kept, out.get(), n);
    LAUNCH_OK();
    std::vector<int> result = out.download();
    bool right = true;
    for (int i = 0; i < n; ++i)
        right = right && result[i] == 2 * values[i];
    CUDA_OK(cudaFree(kept));
    CUDA_OK(cudaGraphExecDestroy(executable));
    CUDA_OK(cudaGraphDestroy(graph));
    return finish("graphmemory", right, n);
}
