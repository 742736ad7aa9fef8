// Graphs: one captured from two streams, whose executable is updated; and one made node by node, whose kernels get
// other arguments. Between the kernels are copies of each kind, fills, and a host function.
#include "../check.cuh"

__device__ int offsets[4];

__global__ void scale(int *data, int factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] = data[i] * factor + offsets[i & 3];
}

__global__ void merge(int *out, const int *a, const int *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] += a[i] - b[i];
}

static void count(void *counter) { ++*static_cast<int *>(counter); }

static hipGraph_t captured(hipStream_t stream, const std::vector<int> &host, int *a, int *b, int *out, int fill) {
    int n = static_cast<int>(host.size());
    size_t bytes = n * sizeof(int);
    unsigned grid = blocks_for(n, 128);
    hipStream_t branch;
    hipEvent_t forked, joined;
    CUDA_OK(hipStreamCreateWithFlags(&branch, hipStreamNonBlocking));
    CUDA_OK(hipEventCreateWithFlags(&forked, hipEventDisableTiming));
    CUDA_OK(hipEventCreateWithFlags(&joined, hipEventDisableTiming));
    CUDA_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    CUDA_OK(hipMemcpyAsync(a, host.data(), bytes, hipMemcpyHostToDevice, stream));
    CUDA_OK(hipEventRecord(forked, stream));
    CUDA_OK(hipStreamWaitEvent(branch, forked, 0));
    scale<<<grid, 128, 0, stream>>>(a, 3, n);
    CUDA_OK(hipMemsetAsync(b, fill, bytes, branch));
    scale<<<grid, 128, 0, branch>>>(b, 5, n);
    CUDA_OK(hipEventRecord(joined, branch));
    CUDA_OK(hipStreamWaitEvent(stream, joined, 0));
    merge<<<grid, 128, 0, stream>>>(out, a, b, n);
    hipGraph_t graph;
    CUDA_OK(hipStreamEndCapture(stream, &graph));
    CUDA_OK(hipEventDestroy(forked));
    CUDA_OK(hipEventDestroy(joined));
    CUDA_OK(hipStreamDestroy(branch));
    return graph;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 3000)), calls = 0;
    size_t bytes = n * sizeof(int);
    unsigned grid = blocks_for(n, 128);
    std::vector<int> x(n), back(n);
    for (int i = 0; i < n; ++i)
        x[i] = static_cast<int>(scramble(i) & 0xff);
    const int added[4] = {1, 2, 3, 4};
    CUDA_OK(hipMemcpyToSymbol(HIP_SYMBOL(offsets), added, sizeof added));
    DeviceArray<int> a(n), b(n), out(n);
    out.clear();
    hipStream_t stream;
    CUDA_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    CUDA_OK(hipDeviceSynchronize());

    // Launched, updated from a second capture, launched again.
    hipGraph_t first = captured(stream, x, a.get(), b.get(), out.get(), 1);
    hipGraph_t second = captured(stream, x, a.get(), b.get(), out.get(), 2);
    hipGraphExec_t executable;
    CUDA_OK(hipGraphInstantiate(&executable, first, nullptr, nullptr, 0));
    CUDA_OK(hipGraphLaunch(executable, stream));
    hipGraphNode_t different;
    hipGraphExecUpdateResult result;
    CUDA_OK(hipGraphExecUpdate(executable, second, &different, &result));
    CUDA_OK(hipGraphLaunch(executable, stream));
    CUDA_OK(hipStreamSynchronize(stream));
    CUDA_OK(hipGraphExecDestroy(executable));
    CUDA_OK(hipGraphDestroy(first));
    CUDA_OK(hipGraphDestroy(second));
    std::vector<int> expected(n);
    for (int i = 0; i < n; ++i)
        expected[i] = 2 * (3 * x[i]) - 5 * 0x01010101 - 5 * 0x02020202;
    bool right = out.download() == expected;

    // Other offsets and a fill, the kernel, and what it has made back to the host.
    hipGraph_t graph;
    hipGraphNode_t fill, offset, kernel, host, copy;
    const int others[4] = {10, 20, 30, 40};
    CUDA_OK(hipGraphCreate(&graph, 0));
    CUDA_OK(hipGraphAddMemcpyNodeToSymbol(&offset, graph, nullptr, 0, HIP_SYMBOL(offsets), others, sizeof others, 0,
                                          hipMemcpyHostToDevice));
    hipMemsetParams what = {};
    what.dst = a.get(), what.elementSize = 4, what.height = 1, what.value = 7, what.width = n;
    CUDA_OK(hipGraphAddMemsetNode(&fill, graph, nullptr, 0, &what));
    int *address = a.get(), factor = 6;
    void *arguments[] = {&address, &factor, &n};
    hipKernelNodeParams launch = {};
    launch.func = reinterpret_cast<void *>(scale);
    launch.gridDim = dim3(grid), launch.blockDim = dim3(128), launch.kernelParams = arguments;
    hipGraphNode_t before[] = {fill, offset};
    CUDA_OK(hipGraphAddKernelNode(&kernel, graph, before, 2, &launch));
    hipHostNodeParams call = {count, &calls};
    CUDA_OK(hipGraphAddHostNode(&host, graph, &kernel, 1, &call));
    CUDA_OK(hipGraphAddMemcpyNode1D(&copy, graph, &host, 1, back.data(), a.get(), bytes, hipMemcpyDeviceToHost));
    hipKernelNodeParams told = {};
    CUDA_OK(hipGraphKernelNodeGetParams(kernel, &told));
    right = right && told.func == launch.func && told.gridDim.x == grid;
    CUDA_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    for (; factor < 8; ++factor) {
        if (factor > 6)
            CUDA_OK(hipGraphExecKernelNodeSetParams(executable, kernel, &launch));
        CUDA_OK(hipGraphLaunch(executable, stream));
        CUDA_OK(hipStreamSynchronize(stream));
        for (int i = 0; i < n; ++i)
            right = right && back[i] == 7 * factor + others[i & 3];
    }
    CUDA_OK(hipGraphExecDestroy(executable));
    CUDA_OK(hipGraphDestroy(graph));
    CUDA_OK(hipStreamDestroy(stream));
    return finish("graphs", right && calls == 2, n);
}
