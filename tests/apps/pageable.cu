// A kernel that gets ordinary host memory on devices that share the host's page tables, and a copy on others.
#include "check.cuh"

__global__ void twice(long *out, const long *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 2 * in[i];
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 1000)), device = 0, pageable = 0;
    CUDA_OK(cudaGetDevice(&device));
    CUDA_OK(cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, device));
    std::vector<long> x(n);
    for (int i = 0; i < n; ++i)
        x[i] = static_cast<long>(scramble(i));
    DeviceArray<long> copy(x), out(n);
    twice<<<blocks_for(n, 128), 128>>>(out.get(), pageable ? x.data() : copy.get(), n);
    LAUNCH_OK();
    std::vector<long> result = out.download();
    bool right = true;
    for (int i = 0; i < n; ++i)
        right = right && result[i] == 2 * x[i];
    return finish("pageable", right, n);
}
