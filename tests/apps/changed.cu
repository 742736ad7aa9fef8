// An executable graph of which each kind of node is changed between launches.
#include "driver.cuh"

__global__ void slope(int *data, int step, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] += step * i;
}

__global__ void scale(int *data, int factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] *= factor;
}

static void CUDART_CB count(void *counter) { ++*static_cast<int *>(counter); }
static void CUDART_CB count_twice(void *counter) { *static_cast<int *>(counter) += 2; }

template <typename Kernel>
static cudaGraphNode_t add(cudaGraph_t graph, cudaGraphNode_t after, Kernel kernel, int *data, int number, int n) {
    void *arguments[] = {&data, &number, &n};
    cudaKernelNodeParams parameters = {};
    parameters.func = reinterpret_cast<void *>(kernel);
    parameters.gridDim = blocks_for(n, 128);
    parameters.blockDim = 128;
    parameters.kernelParams = arguments;
    cudaGraphNode_t node;
    CUDA_OK(cudaGraphAddKernelNode(&node, graph, &after, after ? 1 : 0, &parameters));
    return node;
}

// A fill, a kernel, a graph with another kernel, a copy, a host function and an event, one after the other.
struct Built {
    cudaGraph_t graph, child;
    cudaGraphNode_t fill, kernel, inner, copy, host, event;

    Built(int *data, int *out, int value, int step, int factor, int *counter, cudaEvent_t marked, int n) {
        CUDA_OK(cudaGraphCreate(&graph, 0));
        CUDA_OK(cudaGraphCreate(&child, 0));
        cudaMemsetParams fills = {};
        fills.dst = data;
        fills.value = static_cast<unsigned>(value);
        fills.elementSize = 4;
        fills.width = static_cast<size_t>(n);
        fills.height = 1;
        CUDA_OK(cudaGraphAddMemsetNode(&fill, graph, nullptr, 0, &fills));
        kernel = add(graph, fill, slope, data, step, n);
        add(child, nullptr, scale, data, factor, n);
        DRIVER_OK(cuGraphAddChildGraphNode, &inner, graph, &kernel, 1, child);
        size_t bytes = n * sizeof(int);
        CUDA_OK(cudaGraphAddMemcpyNode1D(&copy, graph, &inner, 1, out, data, bytes, cudaMemcpyDeviceToDevice));
        cudaHostNodeParams calls = {};
        calls.fn = count;
        calls.userData = counter;
        CUDA_OK(cudaGraphAddHostNode(&host, graph, &copy, 1, &calls));
        DRIVER_OK(cuGraphAddEventRecordNode, &event, graph, &host, 1, marked);
    }
    ~Built() {
        CUDA_OK(cudaGraphDestroy(graph));
        CUDA_OK(cudaGraphDestroy(child));
    }
};

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 1000));
    DeviceArray<int> data(n), first(n), second(n);
    cudaStream_t stream;
    cudaEvent_t start, marks[2];
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (cudaEvent_t *event : {&start, &marks[0], &marks[1]})
        CUDA_OK(cudaEventCreate(event));
    CUDA_OK(cudaEventRecord(start, stream));
    int counters[2] = {}, value = 7, step = 2, factor = 3, launches = 0, into = 0, wrong = 0;
    bool enabled = true;
    Built built(data.get(), first.get(), value, step, factor, &counters[0], marks[0], n);
    cudaGraphExec_t executable;
    CUDA_OK(cudaGraphInstantiate(&executable, built.graph, 0));
    auto launch = [&] {
        CUDA_OK(cudaGraphLaunch(executable, stream));
        CUDA_OK(cudaStreamSynchronize(stream));
        ++launches;
        std::vector<int> out = (into ? second : first).download();
        for (int i = 0; i < n; ++i)
            wrong += out[i] != (value + (enabled ? step * i : 0)) * factor;
    };
    auto set_step = [&](int number) {
        CUDA_KERNEL_NODE_PARAMS kernel;
        DRIVER_OK(cuGraphKernelNodeGetParams, built.kernel, &kernel);
        int *pointer = data.get();
        void *arguments[] = {&pointer, &number, &n};
        kernel.kernelParams = arguments;
        DRIVER_OK(cuGraphExecKernelNodeSetParams, executable, built.kernel, &kernel);
        step = number;
    };
    CUcontext context;
    DRIVER_OK(cuCtxGetCurrent, &context);
    launch();
    set_step(5);
    launch();

    CUDA_MEMSET_NODE_PARAMS fill;
    DRIVER_OK(cuGraphMemsetNodeGetParams, built.fill, &fill);
    fill.value = static_cast<unsigned>(value = 9);
    DRIVER_OK(cuGraphExecMemsetNodeSetParams, executable, built.fill, &fill, context);
    launch();

    CUDA_MEMCPY3D copy;
    DRIVER_OK(cuGraphMemcpyNodeGetParams, built.copy, &copy);
    copy.dstDevice = reinterpret_cast<CUdeviceptr>(second.get());
    into = 1;
    DRIVER_OK(cuGraphExecMemcpyNodeSetParams, executable, built.copy, &copy, context);
    launch();

    CUDA_HOST_NODE_PARAMS host;
    DRIVER_OK(cuGraphHostNodeGetParams, built.host, &host);
    host.fn = count_twice;
    host.userData = &counters[1];
    DRIVER_OK(cuGraphExecHostNodeSetParams, executable, built.host, &host);
    launch();
    wrong += counters[0] != 4 || counters[1] != 2;

    cudaGraph_t child;
    CUDA_OK(cudaGraphCreate(&child, 0));
    add(child, nullptr, scale, data.get(), factor = 4, n);
    DRIVER_OK(cuGraphExecChildGraphNodeSetParams, executable, built.inner, child);
    CUDA_OK(cudaGraphDestroy(child));
    launch();

    float milliseconds;
    wrong += cudaEventElapsedTime(&milliseconds, start, marks[0]) != cudaSuccess;
    wrong += cudaEventElapsedTime(&milliseconds, start, marks[1]) == cudaSuccess;
    (void)cudaGetLastError();
    DRIVER_OK(cuGraphExecEventRecordNodeSetEvent, executable, built.event, marks[1]);
    launch();
    wrong += cudaEventElapsedTime(&milliseconds, start, marks[1]) != cudaSuccess;

    DRIVER_OK(cuGraphNodeSetEnabled, executable, built.kernel, 0);
    enabled = false;
    launch();
    DRIVER_OK(cuGraphNodeSetEnabled, executable, built.kernel, 1);
    enabled = true;
    launch();

    // The nodes of the first graph are still the names of the executable's nodes after this.
    Built other(data.get(), first.get(), value = 1, step = 6, factor = 2, &counters[0], marks[0], n);
    CUgraphExecUpdateResultInfo result;
    DRIVER_OK(cuGraphExecUpdate, executable, other.graph, &result);
    into = 0;
    launch();
    set_step(8);
    launch();
    wrong += counters[0] != 6 || counters[1] != 10;
    CUDA_OK(cudaGraphExecDestroy(executable));
    std::printf("changed: %d launches\n", launches);
    return finish("changed", wrong == 0, n);
}
