// A graph captured from two streams, with copies, a fill and a host function between its kernels. It is launched twice.
#include "check.cuh"

__global__ void scale(int *data, int factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] = data[i] * factor + i;
}

__global__ void merge(int *out, const int *a, const int *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] += a[i] - b[i];
}

static void CUDART_CB count(void *counter) { ++*static_cast<int *>(counter); }

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 3000)), calls = 0;
    size_t bytes = n * sizeof(int);
    unsigned grid = blocks_for(n, 128);
    std::vector<int> x(n);
    for (int i = 0; i < n; ++i)
        x[i] = static_cast<int>(scramble(i) & 0xff);
    cudaStream_t stream, branch;
    cudaEvent_t forked, joined;
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithFlags(&branch, cudaStreamNonBlocking));
    CUDA_OK(cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
    CUDA_OK(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    DeviceArray<int> source(x), a(n), b(n), out(n);
    out.clear();
    CUDA_OK(cudaDeviceSynchronize());

    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CUDA_OK(cudaMemcpyAsync(a.get(), source.get(), bytes, cudaMemcpyDeviceToDevice, stream));
    CUDA_OK(cudaEventRecord(forked, stream));
    CUDA_OK(cudaStreamWaitEvent(branch, forked, 0));
    scale<<<grid, 128, 0, stream>>>(a.get(), 3, n);
    CUDA_OK(cudaMemsetAsync(b.get(), 1, bytes, branch));
    scale<<<grid, 128, 0, branch>>>(b.get(), 5, n);
    CUDA_OK(cudaEventRecord(joined, branch));
    CUDA_OK(cudaStreamWaitEvent(stream, joined, 0));
    merge<<<grid, 128, 0, stream>>>(out.get(), a.get(), b.get(), n);
    CUDA_OK(cudaLaunchHostFunc(stream, count, &calls));
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
    CUDA_OK(cudaGraphDestroy(graph));
    for (int round = 0; round < 2; ++round)
        CUDA_OK(cudaGraphLaunch(executable, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    CUDA_OK(cudaGraphExecDestroy(executable));

    bool right = calls == 2;
    std::vector<int> result = out.download();
    for (int i = 0; i < n; ++i)
        right = right && result[i] == 2 * ((3 * x[i] + i) - (5 * 0x01010101 + i));
    CUDA_OK(cudaEventDestroy(forked));
    CUDA_OK(cudaEventDestroy(joined));
    CUDA_OK(cudaStreamDestroy(stream));
    CUDA_OK(cudaStreamDestroy(branch));
    return finish("graphs", right, n);
}
