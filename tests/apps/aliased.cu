// Physical memory mapped at two addresses: with one handle, with a further handle to the mapping, and with an import of
// it. Kernels write through one address and read through the other.
#include "driver.cuh"

#include <unistd.h>

enum Way { SAME_HANDLE, FURTHER_HANDLE, IMPORTED, OTHER_PART, NO_ACCESS, BESIDE, UNMAPPED };

template <int> __global__ void forward(const long *from, long *through, const long *seen, long *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        through[i] = from[i] + i;
        // Without it, writes need not be visible at the other address (CUDA C++ Programming Guide, "Virtual Aliasing").
        asm volatile("fence.proxy.alias;" ::: "memory");
        out[i] = *static_cast<const volatile long *>(seen + i);
    }
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 1000));
    CUDA_OK(cudaFree(nullptr));
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    size_t page = 0;
    DRIVER_OK(cuMemGetAllocationGranularity, &page, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr base = 0;
    DRIVER_OK(cuMemAddressReserve, &base, 2 * page, 0, 0, 0);
    CUmemGenericAllocationHandle handle, second;
    DRIVER_OK(cuMemCreate, &handle, page, &properties, 0);
    DRIVER_OK(cuMemMap, base, page, 0, handle, 0);
    DRIVER_OK(cuMemSetAccess, base, page, &access, 1);
    auto map = [&](CUmemGenericAllocationHandle other, bool accessible) {
        DRIVER_OK(cuMemMap, base + page, page, 0, other, 0);
        if (accessible)
            DRIVER_OK(cuMemSetAccess, base + page, page, &access, 1);
    };
    auto unmap = [&] { DRIVER_OK(cuMemUnmap, base + page, page); };
    DeviceArray<long> from(std::vector<long>(n, 5)), own(n), out(n);
    own.clear();
    long *first = reinterpret_cast<long *>(base), *other = reinterpret_cast<long *>(base + page);
    unsigned blocks = blocks_for(n, 128);
    bool right = true;
    auto check = [&](bool shared) {
        LAUNCH_OK();
        std::vector<long> seen = out.download();
        for (int i = 0; i < n; ++i)
            right = right && (!shared || seen[i] == 5 + i);
        CUDA_OK(cudaMemset(first, 0, n * sizeof(long)));
    };
    CUDA_OK(cudaMemset(first, 0, n * sizeof(long)));

    map(handle, true);
    forward<SAME_HANDLE><<<blocks, 128>>>(from.get(), first, other, out.get(), n);
    check(true);
    // A kernel that does not get that address.
    forward<BESIDE><<<blocks, 128>>>(from.get(), own.get(), own.get(), out.get(), n);
    check(true);
    unmap();

    map(handle, false);
    forward<NO_ACCESS><<<blocks, 128>>>(from.get(), first, first, out.get(), n);
    check(true);
    unmap();

    // Parts of one handle. Drivers up to 13.0 can only map a whole handle.
    CUmemGenericAllocationHandle large;
    DRIVER_OK(cuMemCreate, &large, 2 * page, &properties, 0);
    if (DRIVER(cuMemMap)(base + page, page, page, large, 0) == CUDA_SUCCESS) {
        DRIVER_OK(cuMemUnmap, base, page);
        DRIVER_OK(cuMemMap, base, page, 0, large, 0);
        DRIVER_OK(cuMemSetAccess, base, 2 * page, &access, 1);
        CUDA_OK(cudaMemset(first, 0, n * sizeof(long)));
        CUDA_OK(cudaMemset(other, 0, n * sizeof(long)));
        forward<OTHER_PART><<<blocks, 128>>>(from.get(), first, other, out.get(), n);
        check(false);
        unmap();
        DRIVER_OK(cuMemUnmap, base, page);
        DRIVER_OK(cuMemMap, base, page, 0, handle, 0);
        DRIVER_OK(cuMemSetAccess, base, page, &access, 1);
        CUDA_OK(cudaMemset(first, 0, n * sizeof(long)));
    }
    DRIVER_OK(cuMemRelease, large);

    forward<UNMAPPED><<<blocks, 128>>>(from.get(), first, first, out.get(), n);
    check(true);

    DRIVER_OK(cuMemRetainAllocationHandle, &second, reinterpret_cast<void *>(first));
    map(second, true);
    forward<FURTHER_HANDLE><<<blocks, 128>>>(from.get(), first, other, out.get(), n);
    check(true);
    unmap();
    DRIVER_OK(cuMemRelease, second);

    int descriptor = -1;
    DRIVER_OK(cuMemExportToShareableHandle, &descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    DRIVER_OK(cuMemImportFromShareableHandle, &second, reinterpret_cast<void *>(static_cast<long>(descriptor)),
              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    close(descriptor);
    map(second, true);
    forward<IMPORTED><<<blocks, 128>>>(from.get(), first, other, out.get(), n);
    check(true);
    unmap();
    DRIVER_OK(cuMemRelease, second);

    // An address without a mapping has no handle.
    long *plain;
    CUDA_OK(cudaMalloc(&plain, page));
    right = right && DRIVER(cuMemRetainAllocationHandle)(&second, plain) == CUDA_ERROR_INVALID_VALUE;
    CUDA_OK(cudaFree(plain));
    DRIVER_OK(cuMemUnmap, base, page);
    DRIVER_OK(cuMemRelease, handle);
    DRIVER_OK(cuMemAddressFree, base, 2 * page);
    return finish("aliased", right, n);
}
