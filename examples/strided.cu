// Smooths the rows of a matrix, slowly: neighbouring threads work on different rows, so they read memory that is far
// apart, and a block is one warp. scripts/demo records the kernel and finds a faster block.
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_OK(call)                                                                                                  \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess) {                                                                                   \
            std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));                                       \
            return 2;                                                                                                  \
        }                                                                                                              \
    } while (0)

__global__ void smooth(float *out, const float *in, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= rows || column >= columns)
        return;
    size_t at = static_cast<size_t>(row) * columns + column;
    float left = column > 0 ? in[at - 1] : in[at], right = column + 1 < columns ? in[at + 1] : in[at];
    out[at] = 0.25f * left + 0.5f * in[at] + 0.25f * right;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? std::atoi(argv[1]) : 2048;
    size_t count = static_cast<size_t>(n) * n;
    std::vector<float> in(count), out(count);
    for (size_t i = 0; i < count; ++i)
        in[i] = static_cast<float>(i % 1024);
    float *device_in, *device_out;
    CUDA_OK(cudaMalloc(&device_in, count * sizeof(float)));
    CUDA_OK(cudaMalloc(&device_out, count * sizeof(float)));
    CUDA_OK(cudaMemcpy(device_in, in.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    smooth<<<dim3((n + 31) / 32, n), dim3(32, 1)>>>(device_out, device_in, n, n);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaMemcpy(out.data(), device_out, count * sizeof(float), cudaMemcpyDeviceToHost));
    bool right = true;
    for (size_t i = 0; i < count; ++i) {
        size_t column = i % n;
        float before = column > 0 ? in[i - 1] : in[i], after = column + 1 < static_cast<size_t>(n) ? in[i + 1] : in[i];
        right = right && out[i] == 0.25f * before + 0.5f * in[i] + 0.25f * after;
    }
    std::printf("strided: %s (n=%d)\n", right ? "ok" : "WRONG", n);
    return right ? 0 : 1;
}
