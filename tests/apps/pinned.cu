// Page-locked memory that no argument points to: an address in device memory points to a structure in page-locked
// memory, which points to the values. An unreachable staging buffer is next to them.
#include "check.cuh"

struct Head {
    long *values;
    long count;
};

__global__ void follow(Head **table) {
    long i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < table[0]->count)
        table[0]->values[i] += i;
}

int main(int argc, char **argv) {
    long n = static_cast<long>(size_argument(argc, argv, 1000));
    long *values;
    Head *head;
    unsigned char *staging;
    CUDA_OK(cudaMallocHost(reinterpret_cast<void **>(&staging), 100000));
    CUDA_OK(cudaMallocHost(reinterpret_cast<void **>(&values), n * sizeof(long)));
    CUDA_OK(cudaMallocHost(reinterpret_cast<void **>(&head), sizeof *head));
    *head = {values, n};
    for (long i = 0; i < n; ++i)
        values[i] = 5;
    for (int i = 0; i < 100000; ++i)
        staging[i] = static_cast<unsigned char>(scramble(i));
    bool right = true;
    {
        DeviceArray<unsigned char> staged(100000);
        CUDA_OK(cudaMemcpy(staged.get(), staging, 100000, cudaMemcpyHostToDevice));
        DeviceArray<Head *> table(std::vector<Head *>{head});
        follow<<<blocks_for(n, 128), 128>>>(table.get());
        LAUNCH_OK();
    }
    for (long i = 0; i < n; ++i)
        right = right && values[i] == 5 + i;
    CUDA_OK(cudaFreeHost(staging));
    CUDA_OK(cudaFreeHost(values));
    CUDA_OK(cudaFreeHost(head));
    return finish("pinned", right, n);
}
