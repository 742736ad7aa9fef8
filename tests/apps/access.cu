// Access rights to memory: mappings without access so far, mappings made by a thread without a context, a range over
// memory of two devices, and peer access that is enabled and disabled again. With a single device, the program omits
// the second half.
#include "driver.cuh"
#include <thread>

template <int Step> __global__ void bump(long *data, long n) {
    long i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] += Step;
}

__global__ void through(long **table, long n) {
    long i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        table[0][i] += i;
}

__global__ void across(long *data, long distance, long n) {
    long i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] += data[distance + i];
}

static size_t page = 0;

static CUmemAllocationProp memory_of(int device) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    return properties;
}

static CUdeviceptr reserve(size_t bytes) {
    CUdeviceptr base = 0;
    DRIVER_OK(cuMemAddressReserve, &base, bytes, 0, 0, 0);
    return base;
}

static void map(CUdeviceptr address, int device) {
    CUmemAllocationProp properties = memory_of(device);
    CUmemGenericAllocationHandle handle;
    DRIVER_OK(cuMemCreate, &handle, page, &properties, 0);
    DRIVER_OK(cuMemMap, address, page, 0, handle, 0);
    DRIVER_OK(cuMemRelease, handle);
}

static CUmemAccessDesc access(int device, CUmemAccess_flags flags) {
    CUmemAccessDesc description = {memory_of(device).location, flags};
    return description;
}

static long element(const void *data, long index) {
    long value;
    CUDA_OK(cudaMemcpy(&value, static_cast<const long *>(data) + index, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

int main(int argc, char **argv) {
    long n = static_cast<long>(size_argument(argc, argv, 1000));
    unsigned grid = blocks_for(n, 128);
    size_t bytes = n * sizeof(long);
    CUDA_OK(cudaFree(nullptr));
    CUmemAllocationProp properties = memory_of(0);
    DRIVER_OK(cuMemGetAllocationGranularity, &page, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    long *data, **table;
    CUDA_OK(cudaMalloc(reinterpret_cast<void **>(&data), bytes));
    CUDA_OK(cudaMemset(data, 0, bytes));

    // Mapped without access; then accessible to the device, and inaccessible again.
    CUdeviceptr idle = reserve(page);
    map(idle, 0);
    bump<1><<<grid, 128>>>(data, n);
    LAUNCH_OK();
    CUmemAccessDesc given = access(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), taken = access(0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    DRIVER_OK(cuMemSetAccess, idle, page, &given, 1);
    bump<2><<<grid, 128>>>(data, n);
    LAUNCH_OK();
    DRIVER_OK(cuMemSetAccess, idle, page, &taken, 1);
    bump<3><<<grid, 128>>>(data, n);
    LAUNCH_OK();
    DRIVER_OK(cuMemUnmap, idle, page);
    bool right = element(data, 7) == 6;

    CUdeviceptr base = reserve(2 * page);
    std::thread([&] {
        map(base, 0);
        DRIVER_OK(cuMemSetAccess, base, page, &given, 1);
    }).join();
    CUDA_OK(cudaMemset(reinterpret_cast<void *>(base), 0, bytes));
    CUDA_OK(cudaMalloc(reinterpret_cast<void **>(&table), sizeof base));
    CUDA_OK(cudaMemcpy(table, &base, sizeof base, cudaMemcpyHostToDevice));
    through<<<grid, 128>>>(table, n);
    LAUNCH_OK();
    right = right && element(reinterpret_cast<void *>(base), 7) == 7;

    int devices = 0, reachable = 0;
    CUDA_OK(cudaGetDeviceCount(&devices));
    if (devices > 1)
        CUDA_OK(cudaDeviceCanAccessPeer(&reachable, 0, 1));
    if (reachable) {
        long *far;
        CUDA_OK(cudaSetDevice(1));
        CUDA_OK(cudaMalloc(reinterpret_cast<void **>(&far), 3 * bytes));
        CUDA_OK(cudaMemset(far, 0, 3 * bytes));
        CUDA_OK(cudaSetDevice(0));
        map(base + page, 1);
        CUmemAccessDesc both[] = {given, access(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)};
        DRIVER_OK(cuMemSetAccess, base, 2 * page, both, 2);
        CUDA_OK(cudaMemset(reinterpret_cast<void *>(base + page), 1, bytes));
        across<<<grid, 128>>>(reinterpret_cast<long *>(base), static_cast<long>(page / sizeof(long)), n);
        LAUNCH_OK();
        right = right && element(reinterpret_cast<void *>(base), 7) == 7 + 0x0101010101010101;
        CUDA_OK(cudaDeviceEnablePeerAccess(1, 0));
        bump<4><<<grid, 128>>>(far, n);
        LAUNCH_OK();
        CUDA_OK(cudaDeviceDisablePeerAccess(1));
        bump<5><<<grid, 128>>>(data, n);
        LAUNCH_OK();
        right = right && element(data, 7) == 11;
        CUDA_OK(cudaSetDevice(1));
        right = right && element(far, 7) == 4;
        CUDA_OK(cudaFree(far));
        CUDA_OK(cudaSetDevice(0));
        DRIVER_OK(cuMemUnmap, base + page, page);
    }
    DRIVER_OK(cuMemUnmap, base, page);
    CUDA_OK(cudaFree(data));
    CUDA_OK(cudaFree(table));
    return finish("access", right, n);
}
