// Raises limits of the context before its launch. A replay must use the same limits.
#include "check.cuh"

__global__ void limits(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 7 * i;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 5000));
    if (cudaDeviceSetLimit(cudaLimitStackSize, 4096) != cudaSuccess || cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20) != cudaSuccess)
        return finish("limits", false, n);
    DeviceArray<int> out(n);
    limits<<<blocks_for(n, 256), 256>>>(out.get(), n);
    LAUNCH_OK();
    std::vector<int> result = out.download();
    bool right = true;
    for (int i = 0; i < n; ++i)
        right = right && result[i] == 7 * i;
    return finish("limits", right, n);
}
