// An executable graph whose fill, kernel, child graph, copy and host function are changed between launches.
#include "../check.cuh"

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

static void count(void *counter) { ++*static_cast<int *>(counter); }

struct Call {
    int *data, number, n;
    void *arguments[3] = {&data, &number, &n};
    hipKernelNodeParams parameters = {};

    template <typename Kernel> Call(Kernel kernel, int *data, int number, int n) : data(data), number(number), n(n) {
        parameters.func = reinterpret_cast<void *>(kernel);
        parameters.gridDim = dim3(blocks_for(n, 128));
        parameters.blockDim = dim3(128);
        parameters.kernelParams = arguments;
    }
};

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 1000)), counters[2] = {}, wrong = 0;
    int value = 7, step = 2, factor = 3;
    size_t bytes = n * sizeof(int);
    DeviceArray<int> data(n), first(n), second(n);
    DeviceArray<int> *into = &first;
    hipStream_t stream;
    CUDA_OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    hipGraph_t graph, child;
    hipGraphNode_t fill, kernel, inner, copy, host, ignored;
    hipGraphExec_t executable;
    CUDA_OK(hipGraphCreate(&graph, 0));
    hipMemsetParams fills = {};
    fills.dst = data.get(), fills.elementSize = 4, fills.height = 1, fills.value = value, fills.width = n;
    CUDA_OK(hipGraphAddMemsetNode(&fill, graph, nullptr, 0, &fills));
    Call slopes(slope, data.get(), step, n), scales(scale, data.get(), factor, n);
    CUDA_OK(hipGraphAddKernelNode(&kernel, graph, &fill, 1, &slopes.parameters));
    CUDA_OK(hipGraphCreate(&child, 0));
    CUDA_OK(hipGraphAddKernelNode(&ignored, child, nullptr, 0, &scales.parameters));
    CUDA_OK(hipGraphAddChildGraphNode(&inner, graph, &kernel, 1, child));
    CUDA_OK(hipGraphDestroy(child));
    CUDA_OK(hipGraphAddMemcpyNode1D(&copy, graph, &inner, 1, first.get(), data.get(), bytes, hipMemcpyDeviceToDevice));
    hipHostNodeParams calls = {};
    calls.fn = count, calls.userData = &counters[0];
    CUDA_OK(hipGraphAddHostNode(&host, graph, &copy, 1, &calls));
    CUDA_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    auto launch = [&] {
        CUDA_OK(hipGraphLaunch(executable, stream));
        CUDA_OK(hipStreamSynchronize(stream));
        std::vector<int> out = into->download();
        for (int i = 0; i < n; ++i)
            wrong += out[i] != (value + step * i) * factor;
    };
    launch();
    fills.value = value = 9;
    CUDA_OK(hipGraphExecMemsetNodeSetParams(executable, fill, &fills));
    launch();
    slopes.number = step = 5;
    CUDA_OK(hipGraphExecKernelNodeSetParams(executable, kernel, &slopes.parameters));
    launch();
    CUDA_OK(hipGraphExecMemcpyNodeSetParams1D(executable, copy, second.get(), data.get(), bytes,
                                              hipMemcpyDeviceToDevice));
    into = &second;
    launch();
    calls.userData = &counters[1];
    CUDA_OK(hipGraphExecHostNodeSetParams(executable, host, &calls));
    launch();
    scales.number = factor = 4;
    CUDA_OK(hipGraphCreate(&child, 0));
    CUDA_OK(hipGraphAddKernelNode(&ignored, child, nullptr, 0, &scales.parameters));
    CUDA_OK(hipGraphExecChildGraphNodeSetParams(executable, inner, child));
    CUDA_OK(hipGraphDestroy(child));
    launch();
    wrong += counters[0] != 4 || counters[1] != 2;
    CUDA_OK(hipGraphExecDestroy(executable));
    CUDA_OK(hipGraphDestroy(graph));
    CUDA_OK(hipStreamDestroy(stream));
    return finish("changed", wrong == 0, n);
}
