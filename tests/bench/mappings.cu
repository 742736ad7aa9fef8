// `mappings N`: seconds for N calls of cuMemMap and cuMemSetAccess, then of cuMemUnmap. Frameworks map this much.
#include "../apps/driver.cuh"

#include <chrono>

static double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int main(int argc, char **argv) {
    size_t count = size_argument(argc, argv, 10000);
    CUDA_OK(cudaFree(nullptr));
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    size_t page = 0;
    DRIVER_OK(cuMemGetAllocationGranularity, &page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    CUdeviceptr base = 0;
    DRIVER_OK(cuMemAddressReserve, &base, count * page, 0, 0, 0);
    CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    // One piece of memory at all addresses, because the CPU device needs a file for each piece.
    CUmemGenericAllocationHandle memory;
    DRIVER_OK(cuMemCreate, &memory, page, &properties, 0);
    auto map = DRIVER(cuMemMap);
    auto set_access = DRIVER(cuMemSetAccess);
    auto unmap = DRIVER(cuMemUnmap);
    auto start = std::chrono::steady_clock::now();
    for (size_t index = 0; index < count; ++index)
        if (map(base + index * page, page, 0, memory, 0) || set_access(base + index * page, page, &access, 1))
            return 2;
    std::printf("map_s %.3f\n", seconds_since(start));
    start = std::chrono::steady_clock::now();
    for (size_t index = 0; index < count; ++index)
        if (unmap(base + index * page, page))
            return 2;
    std::printf("unmap_s %.3f\n", seconds_since(start));
    DRIVER_OK(cuMemRelease, memory);
    DRIVER_OK(cuMemAddressFree, base, count * page);
}
