// Physical memory as HIP's own headers describe it, whose layout changed in version 5.3.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <vector>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        hipError_t status = call;                                                                                      \
        if (status != hipSuccess) {                                                                                    \
            std::printf("%s: %s\n", #call, hipGetErrorString(status));                                                 \
            return 2;                                                                                                  \
        }                                                                                                              \
    } while (0)

__global__ void doubled(long *out, const long *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 2 * in[i];
}

int main() {
    constexpr int n = 1000;
    hipMemAllocationProp properties = {};
    properties.type = hipMemAllocationTypePinned;
    properties.location.type = hipMemLocationTypeDevice;
    properties.location.id = 0;
    size_t page = 0;
    OK(hipMemGetAllocationGranularity(&page, &properties, hipMemAllocationGranularityRecommended));
    void *base = nullptr;
    OK(hipMemAddressReserve(&base, 2 * page, 0, nullptr, 0));
    hipMemAccessDesc access = {};
    access.location = properties.location;
    access.flags = hipMemAccessFlagsProtReadWrite;
    bool right = true;
    for (int index = 0; index < 2; ++index) {
        hipMemGenericAllocationHandle_t handle;
        void *place = static_cast<char *>(base) + index * page;
        OK(hipMemCreate(&handle, page, &properties, 0));
        OK(hipMemMap(place, page, 0, handle, 0));
        OK(hipMemSetAccess(place, page, &access, 1));
        hipMemAllocationProp told = {};
        OK(hipMemGetAllocationPropertiesFromHandle(&told, handle));
        right = right && told.type == properties.type && told.location.type == properties.location.type &&
                told.location.id == properties.location.id;
        OK(hipMemRelease(handle));
    }
    long *in = static_cast<long *>(base), *out = in + page / sizeof(long);
    std::vector<long> values(n);
    for (int i = 0; i < n; ++i)
        values[i] = 3 * i + 1;
    OK(hipMemcpy(in, values.data(), n * sizeof(long), hipMemcpyHostToDevice));
    doubled<<<(n + 127) / 128, 128>>>(out, in, n);
    OK(hipDeviceSynchronize());
    OK(hipMemcpy(values.data(), out, n * sizeof(long), hipMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i)
        right = right && values[i] == 2 * (3 * i + 1);
    for (int index = 0; index < 2; ++index)
        OK(hipMemUnmap(static_cast<char *>(base) + index * page, page));
    OK(hipMemAddressFree(base, 2 * page));
    std::printf("mappings: %s\n", right ? "ok" : "WRONG");
    return right ? 0 : 1;
}
