// Kernels that cannot be recorded: one calls a function by a pointer, one would allocate memory on the device and is told
// not to.
#include "../check.cuh"

typedef int (*Function)(int);
__device__ int twice(int x) { return 2 * x; }
__device__ Function chosen = twice;

__global__ void calls(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = chosen(i);
}

__global__ void allocates(int *out, int n) {
    int *memory = n < 0 ? static_cast<int *>(malloc(sizeof(int))) : out;
    if (memory)
        memory[0] = 5;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 100));
    DeviceArray<int> out(n);
    out.clear();
    calls<<<blocks_for(n, 64), 64>>>(out.get(), n);
    LAUNCH_OK();
    allocates<<<1, 1>>>(out.get(), n);
    LAUNCH_OK();
    std::vector<int> result = out.download();
    bool right = result[0] == 5;
    for (int i = 1; i < n; ++i)
        right = right && result[i] == 2 * i;
    return finish("refused", right, n);
}
