// Page-locked memory without a pointer into it: kernels get the element before the first (like code that counts from
// one), or the end (like code that counts down).
#include "check.cuh"

// a[1] is the first.
__global__ void from_one(long *out, const long *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 3 * a[i + 1];
}

__global__ void downward(long *out, const long *end, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 5 * end[-1 - i];
}

// Rows and columns count from one, and the pointer is in memory.
__global__ void matrix(long *out, const long *const *table, int rows, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * columns)
        out[i] = 7 * table[0][(i / columns + 1) * columns + i % columns + 1];
}

int main(int argc, char **argv) {
    // Whole pages, so that some drivers place allocations next to each other.
    int rows = 32, columns = 32, n = rows * columns;
    static_cast<void>(argc), static_cast<void>(argv);
    long *host[4];
    for (long *&memory : host) {
        CUDA_OK(cudaMallocHost(reinterpret_cast<void **>(&memory), n * sizeof(long)));
        for (int i = 0; i < n; ++i)
            memory[i] = static_cast<long>(scramble(static_cast<unsigned>(i)));
    }
    DeviceArray<long> out(n);
    unsigned blocks = blocks_for(n, 128);
    bool right = true;
    auto check = [&](auto expected) {
        LAUNCH_OK();
        std::vector<long> found = out.download();
        for (int i = 0; i < n; ++i)
            right = right && found[i] == expected(i);
    };
    from_one<<<blocks, 128>>>(out.get(), host[1] - 1, n);
    check([&](int i) { return 3 * host[1][i]; });
    downward<<<blocks, 128>>>(out.get(), host[3] + n, n);
    check([&](int i) { return 5 * host[3][n - 1 - i]; });
    {
        DeviceArray<const long *> table(std::vector<const long *>{host[0] - columns - 1});
        matrix<<<blocks, 128>>>(out.get(), table.get(), rows, columns);
        check([&](int i) { return 7 * host[0][i]; });
    }
    for (long *memory : host)
        CUDA_OK(cudaFreeHost(memory));
    return finish("offsets", right, n);
}
