// A cooperative launch, whose blocks wait for one another by a counter in memory. On the CPU device it may have one
// block, which it has for up to 128 elements.
#include "../check.cuh"

__global__ void cooperating(int *values, unsigned *arrived, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = i * 3;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        while (__hip_atomic_load(arrived, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) < gridDim.x)
            __builtin_amdgcn_s_sleep(1);
    }
    __syncthreads();
    int other = i < n ? values[n - 1 - i] : 0;
    if (i < n)
        values[n + i] = other + 1;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 100));
    DeviceArray<int> values(2 * n);
    DeviceArray<unsigned> arrived(1);
    values.clear(), arrived.clear();
    int *data = values.get();
    unsigned *counter = arrived.get();
    void *arguments[] = {&data, &counter, &n};
    CUDA_OK(hipLaunchCooperativeKernel(reinterpret_cast<void *>(cooperating), dim3(blocks_for(n, 128)), dim3(128), arguments, 0, nullptr));
    LAUNCH_OK();
    std::vector<int> result = values.download();
    bool right = true;
    for (int i = 0; i < n; ++i)
        right = right && result[i] == 3 * i && result[n + i] == 3 * (n - 1 - i) + 1;
    return finish("cooperating", right, n);
}
