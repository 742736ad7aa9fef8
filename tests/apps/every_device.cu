// Creates a context on every device before any code is loaded, and then launches a kernel on each.
#include "check.cuh"

__global__ void fill(int *out, int first) { out[threadIdx.x] = first + static_cast<int>(threadIdx.x); }

int main() {
    int count = 0;
    CUDA_OK(cudaGetDeviceCount(&count));
    std::vector<int *> memory(count);
    for (int device = 0; device < count; ++device) {
        CUDA_OK(cudaSetDevice(device));
        CUDA_OK(cudaMalloc(reinterpret_cast<void **>(&memory[device]), 32 * sizeof(int)));
    }
    bool right = true;
    for (int device = 0; device < count; ++device) {
        CUDA_OK(cudaSetDevice(device));
        fill<<<1, 32>>>(memory[device], 100 * device);
        LAUNCH_OK();
        int values[32];
        CUDA_OK(cudaMemcpy(values, memory[device], sizeof values, cudaMemcpyDeviceToHost));
        for (int i = 0; i < 32; ++i)
            right = right && values[i] == 100 * device + i;
    }
    return finish("every_device", right, count);
}
