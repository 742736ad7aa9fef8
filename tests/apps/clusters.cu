// Thread block clusters (architecture 90 and later): each block reads the shared memory of the other blocks in its
// cluster. An attribute of the launch sets the size of a cluster.
#include "check.cuh"

__device__ unsigned rank_in_cluster() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ unsigned blocks_in_cluster() {
    unsigned count;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
    return count;
}

__device__ void wait_for_cluster() {
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}

__device__ int of_block(const int *shared, unsigned rank) {
    unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(shared)), remote;
    int value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(place), "r"(rank));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(remote) : "memory");
    return value;
}

__global__ void exchange(int *out) {
    __shared__ int own;
    if (threadIdx.x == 0)
        own = 100 * blockIdx.x + 7;
    wait_for_cluster();
    int sum = 0;
    for (unsigned rank = 0; rank < blocks_in_cluster(); ++rank)
        sum += of_block(&own, rank);
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum * 8 + rank_in_cluster();
    wait_for_cluster();
}

int main() {
    const int blocks = 16, threads = 32;
    bool right = true;
    for (int size : {2, 4}) {
        DeviceArray<int> out(blocks * threads);
        cudaLaunchAttribute attribute{};
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim = {unsigned(size), 1, 1};
        cudaLaunchConfig_t configuration{};
        configuration.gridDim = blocks;
        configuration.blockDim = threads;
        configuration.attrs = &attribute;
        configuration.numAttrs = 1;
        CUDA_OK(cudaLaunchKernelEx(&configuration, exchange, out.get()));
        LAUNCH_OK();
        std::vector<int> result = out.download();
        for (int i = 0; i < blocks * threads; ++i) {
            int block = i / threads, first = block / size * size, sum = 0;
            for (int other = first; other < first + size; ++other)
                sum += 100 * other + 7;
            right = right && result[i] == sum * 8 + block - first;
        }
    }
    return finish("clusters", right, blocks);
}
