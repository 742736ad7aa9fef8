// Kernels that cannot be recorded: one calls a function by a pointer in memory, one has a variable that HIP does not
// find.
#include "../check.cuh"

typedef int (*Function)(int);
__device__ int twice(int x) { return 2 * x; }
__device__ Function chosen = twice;

__global__ void calls(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = chosen(i);
}

template <class Type> __device__ Type calls_of = Type();
__global__ void counts() { atomicAdd(&calls_of<int>, 1); }

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 100));
    DeviceArray<int> out(n);
    out.clear();
    calls<<<blocks_for(n, 64), 64>>>(out.get(), n);
    LAUNCH_OK();
    counts<<<1, 1>>>();
    LAUNCH_OK();
    std::vector<int> result = out.download();
    bool right = true;
    for (int i = 0; i < n; ++i)
        right = right && result[i] == 2 * i;
    return finish("refused", right, n);
}
