// Host memory that a kernel reads and writes: page-locked and mapped, registered by the program, and one allocation
// that only a structure in device memory points to.
#include "check.cuh"

struct Table {
    int *counts;
    int size;
};

__global__ void tally(const int *registered, int *mapped, const Table *table, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    mapped[i] = 2 * registered[i] + 1;
    if (i < table->size)
        table->counts[i] += i;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 3000));
    size_t bytes = n * sizeof(int), page = 4096;
    int *mapped, *counts, *on_device;
    int *registered = static_cast<int *>(std::aligned_alloc(page, (bytes + page - 1) / page * page));
    CUDA_OK(cudaHostAlloc(reinterpret_cast<void **>(&mapped), bytes, cudaHostAllocMapped));
    CUDA_OK(cudaHostAlloc(reinterpret_cast<void **>(&counts), bytes, cudaHostAllocMapped | cudaHostAllocPortable));
    CUDA_OK(cudaHostRegister(registered, bytes, cudaHostRegisterMapped));
    CUDA_OK(cudaHostGetDevicePointer(reinterpret_cast<void **>(&on_device), registered, 0));
    for (int i = 0; i < n; ++i) {
        registered[i] = static_cast<int>(scramble(i) & 0xffff);
        mapped[i] = -1;
        counts[i] = 7;
    }
    bool right = true;
    {
        DeviceArray<Table> table(std::vector<Table>{{counts, n / 2}});
        tally<<<blocks_for(n, 64), 64>>>(on_device, mapped, table.get(), n);
        LAUNCH_OK();
    }
    for (int i = 0; i < n; ++i)
        right = right && mapped[i] == 2 * registered[i] + 1 && counts[i] == (i < n / 2 ? 7 + i : 7);
    CUDA_OK(cudaHostUnregister(registered));
    CUDA_OK(cudaFreeHost(mapped));
    CUDA_OK(cudaFreeHost(counts));
    std::free(registered);
    return finish("mapped", right, n);
}
