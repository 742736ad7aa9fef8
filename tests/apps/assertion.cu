// assert in device code. It holds for `assertion [n]`. It fails for `assertion n fail`, and the program expects the
// next call to report that.
#include "check.cuh"

#include <cassert>
#include <cstring>

__global__ void assertion(int *values, int n, int limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    assert(values[i] < limit);
    values[i] += 1;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 500));
    bool fail = argc > 2 && std::strcmp(argv[2], "fail") == 0;
    std::vector<int> values(n);
    for (int i = 0; i < n; ++i)
        values[i] = i;
    DeviceArray<int> device_values(values);
    assertion<<<blocks_for(n, 64), 64>>>(device_values.get(), n, fail ? n - 1 : n);
    CUDA_OK(cudaGetLastError());
    if (fail)
        return finish("assertion", cudaDeviceSynchronize() == cudaErrorAssert, n);
    LAUNCH_OK();
    std::vector<int> result = device_values.download();
    bool right = true;
    for (int i = 0; i < n; ++i)
        right = right && result[i] == i + 1;
    return finish("assertion", right, n);
}
