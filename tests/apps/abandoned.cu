// Captures that never end, because the program destroys their stream. A kernel follows each.
#include "check.cuh"

template <int N> __global__ void twice(unsigned *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] *= 2;
}

template <int N> static bool works(int n) {
    std::vector<unsigned> threes(n, 3);
    DeviceArray<unsigned> values(threes);
    twice<N><<<blocks_for(n, 256), 256>>>(values.get(), n);
    LAUNCH_OK();
    bool right = true;
    for (unsigned value : values.download())
        right &= value == 6;
    return right;
}

static void abandon(cudaStreamCaptureMode mode) {
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreate(&stream));
    CUDA_OK(cudaStreamBeginCapture(stream, mode));
    CUDA_OK(cudaStreamDestroy(stream));
}

int main() {
    int n = 1 << 12;
    abandon(cudaStreamCaptureModeRelaxed);
    bool right = works<1>(n);
    abandon(cudaStreamCaptureModeThreadLocal);
    right &= works<2>(n);
    return finish("abandoned", right, n);
}
