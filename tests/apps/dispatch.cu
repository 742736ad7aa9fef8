// Pointers to functions that the host copies from variables of the module to another variable and to allocated memory. The
// kernel calls them, and one through an argument that points to a variable, and stores one. With "changed", the host gives a variable another
// function than it has from the start.
#include "check.cuh"

#include <cstring>

using Operation = long (*)(long);

__device__ long negate(long x) { return -x; }
__device__ long square(long x) { return x * x; }
__device__ long twice(long x) { return 2 * x; }

struct Named {
    int number;
    Operation operation;
};

__device__ Operation negated = negate, doubled = twice;
__device__ Named named[2] = {{7, square}, {8, square}};
__device__ Operation chosen[2];

__global__ void dispatch(const Operation *table, const Named *last, Operation *kept, long *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0)
        *kept = table[1];
    if (i < n)
        out[i] = table[i % 2](i) + 3 * chosen[i % 2](i) + 5 * last->operation(i) + last->number;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 300));
    Operation negates, doubles;
    Named both[2];
    CUDA_OK(cudaMemcpyFromSymbol(&negates, negated, sizeof negates));
    CUDA_OK(cudaMemcpyFromSymbol(&doubles, doubled, sizeof doubles));
    CUDA_OK(cudaMemcpyFromSymbol(both, named, sizeof both));
    const Operation squares = both[1].operation, order[2] = {squares, negates};
    CUDA_OK(cudaMemcpyToSymbol(chosen, order, sizeof order));
    if (argc > 2 && std::strcmp(argv[2], "changed") == 0)
        CUDA_OK(cudaMemcpyToSymbol(negated, &squares, sizeof squares));
    Named *place = nullptr;
    CUDA_OK(cudaGetSymbolAddress(reinterpret_cast<void **>(&place), named));
    DeviceArray<Operation> table(std::vector<Operation>{negates, doubles}), kept(1);
    DeviceArray<long> out(n);
    dispatch<<<blocks_for(n, 64), 64>>>(table.get(), place + 1, kept.get(), out.get(), n);
    LAUNCH_OK();
    bool right = kept.download()[0] == doubles;
    std::vector<long> result = out.download();
    for (long i = 0; i < n; ++i)
        right = right && result[i] == (i % 2 ? 2 * i - 3 * i : -i + 3 * i * i) + 5 * i * i + 8;
    return finish("dispatch", right, n);
}
