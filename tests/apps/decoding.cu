// One executable graph, launched 40 times without a wait: on different streams, by two threads. Each launch depends on
// the one before. A host function writes the page-locked memory that the graph copies next.
#include "check.cuh"

#include <thread>

__global__ void advance(int *data, const int *token, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] = data[i] * 3 + *token;
}

__global__ void choose(const int *data, int *token) { *token = data[0] & 0xff; }

struct Tokens {
    int next, chosen;
};

static void CUDART_CB count(void *tokens) {
    auto own = static_cast<Tokens *>(tokens);
    own->next += 1 + own->chosen;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 1000));
    Tokens *tokens;
    CUDA_OK(cudaMallocHost(&tokens, sizeof *tokens));
    *tokens = {};
    cudaStream_t stream, urgent;
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, -1));
    DeviceArray<int> data(n), token(1);
    data.clear();
    CUDA_OK(cudaDeviceSynchronize());

    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CUDA_OK(cudaLaunchHostFunc(stream, count, tokens));
    CUDA_OK(cudaMemcpyAsync(token.get(), &tokens->next, sizeof(int), cudaMemcpyHostToDevice, stream));
    advance<<<blocks_for(n, 128), 128, 0, stream>>>(data.get(), token.get(), n);
    choose<<<1, 1, 0, stream>>>(data.get(), token.get());
    CUDA_OK(cudaMemcpyAsync(&tokens->chosen, token.get(), sizeof(int), cudaMemcpyDeviceToHost, stream));
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
    CUDA_OK(cudaGraphDestroy(graph));
    const cudaStream_t streams[] = {stream, urgent, cudaStreamLegacy, cudaStreamPerThread};
    for (int round = 0; round < 40; ++round) {
        auto launch = [&] { CUDA_OK(cudaGraphLaunch(executable, streams[round % 4])); };
        if (round % 3 == 2)
            std::thread(launch).join();
        else
            launch();
    }
    CUDA_OK(cudaDeviceSynchronize());
    CUDA_OK(cudaGraphExecDestroy(executable));

    unsigned expected = 0, next = 0, chosen = 0;
    for (int round = 0; round < 40; ++round) {
        next += 1 + chosen;
        expected = expected * 3 + next;
        chosen = expected & 0xff;
    }
    bool right = tokens->chosen == static_cast<int>(chosen);
    for (int value : data.download())
        right = right && value == static_cast<int>(expected);
    CUDA_OK(cudaFreeHost(tokens));
    CUDA_OK(cudaStreamDestroy(stream));
    CUDA_OK(cudaStreamDestroy(urgent));
    return finish("decoding", right, n);
}
