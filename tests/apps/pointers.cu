// A table of function pointers in device memory, and a kernel that calls what it finds there.
#include "check.cuh"

using Operation = long (*)(long);

__device__ long negate(long x) { return -x; }
__device__ long square(long x) { return x * x; }

__global__ void choose(Operation *table) {
    table[0] = negate;
    table[1] = square;
}

__global__ void apply(const Operation *table, long *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = table[i % 2](i);
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 300));
    DeviceArray<Operation> table(2);
    DeviceArray<long> out(n);
    choose<<<1, 1>>>(table.get());
    apply<<<blocks_for(n, 64), 64>>>(table.get(), out.get(), n);
    LAUNCH_OK();
    bool right = true;
    std::vector<long> result = out.download();
    for (long i = 0; i < n; ++i)
        right = right && result[i] == (i % 2 ? i * i : -i);
    return finish("pointers", right, n);
}
