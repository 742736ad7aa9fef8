// A kernel that waits for an answer in mapped memory from a host thread, which also makes other calls meanwhile. A
// kernel that does not wait follows.
#include "check.cuh"
#include <atomic>
#include <thread>

__global__ void await(volatile unsigned *question, volatile unsigned *answer, unsigned *out) {
    *question = 1;
    __threadfence_system();
    while (*answer == 0)
        ;
    *out = *answer + 1;
}

__global__ void advance(unsigned *out) { *out += 1; }

int main() {
    unsigned *mapped, *question, *aside;
    CUDA_OK(cudaHostAlloc(reinterpret_cast<void **>(&mapped), 2 * sizeof(unsigned), cudaHostAllocMapped));
    volatile unsigned *words = mapped;
    words[0] = words[1] = 0;
    CUDA_OK(cudaHostGetDevicePointer(reinterpret_cast<void **>(&question), mapped, 0));
    CUDA_OK(cudaMalloc(&aside, 4096));
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    bool right;
    {
        DeviceArray<unsigned> out(1);
        out.clear();
        CUDA_OK(cudaDeviceSynchronize());
        std::thread answerer([&] {
            while (words[0] == 0)
                std::this_thread::yield();
            CUDA_OK(cudaMemsetAsync(aside, 7, 4096, stream));
            CUDA_OK(cudaStreamSynchronize(stream));
            words[1] = 41;
        });
        await<<<1, 1>>>(question, question + 1, out.get());
        LAUNCH_OK();
        answerer.join();
        advance<<<1, 1>>>(out.get());
        LAUNCH_OK();
        right = out.download()[0] == 43;
    }
    CUDA_OK(cudaStreamDestroy(stream));
    CUDA_OK(cudaFree(aside));
    CUDA_OK(cudaFreeHost(mapped));
    return finish("answering", right, 1);
}
