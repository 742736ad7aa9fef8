// A kernel that cannot be recorded: it calls a function by a pointer in memory.
#include "../check.cuh"

typedef int (*Function)(int);
__device__ int twice(int x) { return 2 * x; }
__device__ Function chosen = twice;

__global__ void calls(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = chosen(i);
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 100));
    DeviceArray<int> out(n);
    out.clear();
    calls<<<blocks_for(n, 64), 64>>>(out.get(), n);
    LAUNCH_OK();
    std::vector<int> result = out.download();
    bool right = true;
    for (int i = 0; i < n; ++i)
        right = right && result[i] == 2 * i;
    return finish("refused", right, n);
}
