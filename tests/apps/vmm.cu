// Virtual memory management by the program, as in allocators of frameworks: one range of addresses that grows by
// mapping, and shrinks.
#include "driver.cuh"

__global__ void extend(long *data, long from, long to) {
    long i = from + blockIdx.x * blockDim.x + threadIdx.x;
    if (i < to)
        data[i] = i < 2 ? i : 3 * data[i % from] + i;
}

int main(int argc, char **argv) {
    long n = static_cast<long>(size_argument(argc, argv, 4000));
    CUDA_OK(cudaFree(nullptr));
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    size_t page = 0;
    DRIVER_OK(cuMemGetAllocationGranularity, &page, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    CUdeviceptr base = 0;
    DRIVER_OK(cuMemAddressReserve, &base, 16 * page, 0, 0, 0);
    CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    auto map = [&](size_t index) {
        CUmemGenericAllocationHandle handle;
        DRIVER_OK(cuMemCreate, &handle, page, &properties, 0);
        DRIVER_OK(cuMemMap, base + index * page, page, 0, handle, 0);
        DRIVER_OK(cuMemSetAccess, base + index * page, page, &access, 1);
        DRIVER_OK(cuMemRelease, handle);
    };
    long *data = reinterpret_cast<long *>(base), each = static_cast<long>(page / sizeof(long));
    std::vector<long> expected(n);
    map(0);
    for (long i = 0; i < n; ++i)
        expected[i] = static_cast<long>(scramble(static_cast<unsigned>(i)) & 0xff);
    CUDA_OK(cudaMemcpy(data, expected.data(), n * sizeof(long), cudaMemcpyHostToDevice));
    // The second half of a buffer directly after the mapped memory.
    map(1);
    extend<<<blocks_for(n, 128), 128>>>(data, each, each + n);
    LAUNCH_OK();
    map(2);
    extend<<<blocks_for(n, 128), 128>>>(data, 2 * each, 2 * each + n);
    LAUNCH_OK();
    bool right = true;
    std::vector<long> result(n);
    for (long page_index = 1; page_index <= 2; ++page_index) {
        CUDA_OK(cudaMemcpy(result.data(), data + page_index * each, n * sizeof(long), cudaMemcpyDeviceToHost));
        for (long i = 0; i < n; ++i)
            right = right && result[i] == 3 * expected[i] + page_index * each + i;
    }
    for (size_t index = 0; index < 3; ++index)
        DRIVER_OK(cuMemUnmap, base + index * page, page);
    DRIVER_OK(cuMemAddressFree, base, 16 * page);
    return finish("vmm", right, n);
}
