// What calls of HIP come to, good ones and bad ones, and what they leave as the last error. Arguments: the order (0 as
// they stand here, else a seed), and "fault" where a kernel is to fault before.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

__global__ void add(int *values, int by) { values[threadIdx.x] += by; }
__device__ int variable = 3;

using Call = std::function<hipError_t()>;
struct Named {
    const char *text;
    Call call;
};

int main(int count, char **arguments) {
    unsigned order = count > 1 ? std::atoi(arguments[1]) : 0;
    bool faults = count > 2 && !std::strcmp(arguments[2], "fault");

    constexpr size_t kBytes = 4000, kHuge = size_t(1) << 60;
    char host[2 * kBytes] = {};
    static char registered[2 * kBytes];
    char *live, *freed, *rows, *pinned, *managed, *pooled, *none = nullptr;
    void *out = nullptr, *volume = nullptr;
    size_t pitch, size = 0, total = 0;
    int number = 0;
    hipStream_t stream;
    hipEvent_t event, other;
    hipGraph_t graph;
    hipDeviceptr_t base = nullptr;
    hipPointerAttribute_t attributes;
    hipFuncAttributes function;
    hipModule_t module;
    hipDeviceProp_t properties;
    hipPitchedPtr pitched;
    hipMemPool_t pool;
    (void)hipMalloc(&live, kBytes);
    (void)hipMallocPitch(reinterpret_cast<void **>(&rows), &pitch, 100, 10);
    (void)hipHostMalloc(reinterpret_cast<void **>(&pinned), kBytes, 0);
    (void)hipMallocManaged(reinterpret_cast<void **>(&managed), kBytes, hipMemAttachGlobal);
    (void)hipStreamCreate(&stream);
    (void)hipMallocAsync(reinterpret_cast<void **>(&pooled), kBytes, stream);
    (void)hipEventCreate(&event);
    (void)hipEventCreate(&other);
    (void)hipMalloc3D(&pitched, make_hipExtent(60, 4, 3));
    (void)hipMalloc(&freed, size_t(200) << 20); // so much that the place is not taken again
    (void)hipFree(freed);
    std::printf("pitch %zu %zu\n", pitch, pitched.pitch);
    int *values = reinterpret_cast<int *>(live);
    int by = 1;
    void *parameters[] = {&values, &by};
    const void *kernel = reinterpret_cast<const void *>(add);
    auto on = [&](const void *address, auto told) {
        std::printf(" %s", told == address ? "same" : told == nullptr ? "null" : "other");
    };
    auto with_new = [&](auto use) {
        void *own = nullptr;
        hipError_t status = hipMalloc(&own, 100);
        if (status != hipSuccess)
            return status;
        status = use(static_cast<char *>(own));
        return status;
    };
    auto launched = [&](unsigned grid, unsigned block, size_t shared) {
        return hipLaunchKernel(kernel, dim3(grid), dim3(block), parameters, shared, stream);
    };
    auto captured = [&](hipStreamCaptureMode mode, Call call) {
        hipStream_t own;
        hipError_t status = hipStreamCreate(&own);
        if (status != hipSuccess)
            return status;
        std::printf(" %s", hipGetErrorName(hipStreamBeginCapture(own, mode)));
        std::swap(own, stream);
        std::printf(" %s", hipGetErrorName(call()));
        std::swap(own, stream);
        hipStreamCaptureStatus capturing;
        std::printf(" %s", hipGetErrorName(hipStreamIsCapturing(own, &capturing)));
        std::printf(" %d", capturing);
        status = hipStreamEndCapture(own, &graph);
        (void)hipStreamDestroy(own);
        return status;
    };
    auto described = [&](size_t x, size_t height) {
        hip_Memcpy2D copy = {};
        copy.srcMemoryType = hipMemoryTypeHost, copy.srcHost = host, copy.srcPitch = 100;
        copy.dstMemoryType = hipMemoryTypeDevice, copy.dstDevice = rows, copy.dstPitch = pitch, copy.dstXInBytes = x;
        copy.WidthInBytes = 100, copy.Height = height;
        return copy;
    };
    auto volumes = [&](size_t depth, int kind) {
        hipMemcpy3DParms copy = {};
        copy.srcPtr = pitched, copy.dstPtr = make_hipPitchedPtr(host, 60, 60, 4);
        copy.extent = make_hipExtent(60, 4, depth), copy.kind = static_cast<hipMemcpyKind>(kind);
        return copy;
    };
    hip_Memcpy2D whole = described(0, 10), beside = described(100, 10), beyond = described(0, 11);
    hipMemcpy3DParms volume_copy = volumes(3, hipMemcpyDeviceToHost), too_deep = volumes(4, hipMemcpyDeviceToHost),
                     nowhere = volumes(4, 9);
    hipExtent small = make_hipExtent(60, 4, 3), large = make_hipExtent(60, 4, 4);

#define CALL(...) {#__VA_ARGS__, [&]() -> hipError_t { return __VA_ARGS__; }}
#define WITH_NEW(...) {"with new: " #__VA_ARGS__, [&]() -> hipError_t { return with_new([&](char *own) { return __VA_ARGS__; }); }}
#define CAPTURED(mode, ...) \
    {#mode ": " #__VA_ARGS__, [&]() -> hipError_t { return captured(mode, [&]() -> hipError_t { return __VA_ARGS__; }); }}
    std::vector<Named> calls = {
        CALL(hipInit(0)),
        CALL(hipInit(1)),
        CALL(hipGetDevice(&number)),
        CALL(hipSetDevice(0)),
        CALL(hipSetDevice(99)),
        CALL(hipSetDevice(-1)),
        CALL(hipGetDeviceCount(&number)),
        CALL(hipGetDeviceProperties(&properties, 0)),
        CALL(hipGetDeviceProperties(&properties, 9)),
        CALL(hipDeviceGetAttribute(&number, hipDeviceAttributeWarpSize, 0)),
        CALL(hipDeviceGetAttribute(&number, hipDeviceAttributeWarpSize, 9)),
        CALL(hipDeviceGetLimit(&size, hipLimitPrintfFifoSize)),
        CALL(hipDeviceGetLimit(&size, hipLimitMallocHeapSize)),
        CALL(hipDeviceGetLimit(&size, static_cast<hipLimit_t>(77))),
        CALL(hipDeviceSynchronize()),
        CALL(hipDeviceGetStreamPriorityRange(&number, &number)),
        CALL(hipRuntimeGetVersion(&number)),
        CALL(hipMalloc(&none, 0)),
        CALL(hipMalloc(&none, 0), on(nullptr, none), hipPeekAtLastError()),
        CALL(hipMalloc(static_cast<void **>(nullptr), 8)),
        CALL(hipMalloc(&none, kHuge)),
        CALL(hipMallocPitch(&out, &pitch, 0, 10)),
        CALL(hipMallocPitch(&out, &pitch, 10, 0)),
        CALL(hipMallocPitch(&out, nullptr, 10, 10)),
        CALL(hipMallocPitch(nullptr, &pitch, 10, 10)),
        CALL(hipMallocPitch(&out, &pitch, kHuge, 10)),
        CALL(hipMemAllocPitch(&base, &pitch, 10, 10, 3)),
        CALL(hipMemAllocPitch(&base, &pitch, 0, 10, 4)),
        CALL(hipMalloc3D(nullptr, small)),
        CALL(hipExtMallocWithFlags(&out, 0, 0)),
        CALL(hipHostMalloc(&out, 0, 0)),
        CALL(hipHostMalloc(nullptr, 8, 0)),
        CALL(hipHostMalloc(&out, kHuge, 0)),
        CALL(hipMallocManaged(&out, 0, hipMemAttachGlobal)),
        CALL(hipMallocManaged(&out, kHuge, hipMemAttachGlobal)),
        CALL(hipMallocAsync(&out, kHuge, stream)),
        CALL(hipMallocAsync(&out, 0, stream)),
        CALL(hipFree(nullptr)),
        CALL(hipFree(freed)),
        CALL(hipFree(live + 1)),
        CALL(hipFree(host)),
        CALL(hipHostFree(nullptr)),
        CALL(hipHostFree(host)),
        CALL(hipHostFree(freed)),
        CALL(hipHostFree(live + 1)),
        CALL(hipFreeAsync(freed, stream)),
        CALL(hipFreeAsync(host, stream)),
        WITH_NEW(hipFree(own)),
        WITH_NEW((hipFree(own), hipFree(own))),
        WITH_NEW(hipHostFree(own)),
        WITH_NEW((hipHostFree(own), hipFree(own))),
        WITH_NEW(hipFreeAsync(own, stream)),
        WITH_NEW((hipFree(own), hipMemset(own, 0, 1))),
        WITH_NEW((hipFree(own), hipMemcpy(own, host, 1, hipMemcpyHostToDevice))),
        CALL(hipMallocHost(&out, 100), hipFree(out)),
        CALL(hipMemcpy(live, host, kBytes, hipMemcpyHostToDevice)),
        CALL(hipMemcpy(live, host, kBytes + 1, hipMemcpyHostToDevice)),
        CALL(hipMemcpy(live + 1, host, kBytes, hipMemcpyHostToDevice)),
        CALL(hipMemcpy(live + 1, host, kBytes, hipMemcpyDefault)),
        CALL(hipMemcpy(host, live, kBytes + 1, hipMemcpyDeviceToHost)),
        CALL(hipMemcpy(host, live, kBytes + 1, hipMemcpyDefault)),
        CALL(hipMemcpy(host, live + kBytes, 1, hipMemcpyDeviceToHost)),
        CALL(hipMemcpy(host, live + kBytes, 0, hipMemcpyDeviceToHost)),
        CALL(hipMemcpy(host, live, 4, static_cast<hipMemcpyKind>(9))),
        CALL(hipMemcpy(host, live, kHuge, static_cast<hipMemcpyKind>(9))),
        CALL(hipMemcpy(nullptr, live, 4, hipMemcpyDeviceToHost)),
        CALL(hipMemcpy(live, nullptr, 4, hipMemcpyHostToDevice)),
        CALL(hipMemcpy(nullptr, nullptr, 0, hipMemcpyHostToDevice)),
        CALL(hipMemcpy(freed, host, 1, hipMemcpyHostToDevice)),
        CALL(hipMemcpy(host, freed, 1, hipMemcpyDeviceToHost)),
        CALL(hipMemcpy(live, rows, 100, hipMemcpyDeviceToDevice)),
        CALL(hipMemcpy(live, rows, kBytes, hipMemcpyDeviceToDevice)),
        CALL(hipMemcpy(pinned, live, kBytes + 1, hipMemcpyDeviceToHost)),
        CALL(hipMemcpy(managed, host, kBytes, hipMemcpyHostToDevice)),
        CALL(hipMemcpy(managed, host, kBytes + 1, hipMemcpyHostToDevice)),
        CALL(hipMemcpy(pooled, host, kBytes, hipMemcpyHostToDevice)),
        CALL(hipMemcpy(pooled, host, kBytes + 1, hipMemcpyHostToDevice)),
        CALL(hipMemcpyHtoD(live, host, kBytes + 1)),
        CALL(hipMemcpyDtoH(host, live, kBytes + 1)),
        CALL(hipMemcpyDtoD(live, live + 1, kBytes)),
        CALL(hipMemcpyHtoD(freed, host, 1)),
        CALL(hipMemcpyAsync(live, host, kBytes, hipMemcpyHostToDevice, stream)),
        CALL(hipMemcpyAsync(live, host, kBytes + 1, hipMemcpyHostToDevice, stream)),
        CALL(hipMemcpyAsync(live, host, 4, hipMemcpyHostToDevice, reinterpret_cast<hipStream_t>(8))),
        CALL(hipMemcpyHtoDAsync(live, host, kBytes + 1, stream)),
        CALL(hipMemcpyDtoHAsync(host, live, kBytes + 1, stream)),
        CALL(hipMemcpyDtoDAsync(live, live + 1, kBytes, stream)),
        CALL(hipMemcpyWithStream(live, host, kBytes + 1, hipMemcpyHostToDevice, stream)),
        CALL(hipMemcpyPeer(live, 0, rows, 0, 100)),
        CALL(hipMemcpyPeer(live, 0, rows, 0, kBytes)),
        CALL(hipMemcpyPeerAsync(live, 0, rows, 0, kBytes, stream)),
        CALL(hipMemcpy2D(rows, pitch, host, 100, 100, 10, hipMemcpyHostToDevice)),
        CALL(hipMemcpy2D(rows, pitch, host, 100, 100, 11, hipMemcpyHostToDevice)),
        CALL(hipMemcpy2D(host, 100, rows, pitch, 100, 11, hipMemcpyDeviceToHost)),
        CALL(hipMemcpy2D(host, 50, rows, pitch, 100, 10, hipMemcpyDeviceToHost)),
        CALL(hipMemcpy2D(host, 100, freed, 100, 100, 10, hipMemcpyDeviceToHost)),
        CALL(hipMemcpy2D(host, 100, rows, pitch, 100, 0, hipMemcpyDeviceToHost)),
        CALL(hipMemcpy2DAsync(rows, pitch, host, 100, 100, 11, hipMemcpyHostToDevice, stream)),
        CALL(hipMemcpyParam2D(&whole)),
        CALL(hipMemcpyParam2D(&beside)),
        CALL(hipMemcpyParam2D(&beyond)),
        CALL(hipMemcpyParam2DAsync(&beyond, stream)),
        CALL(hipMemcpyParam2D(nullptr)),
        CALL(hipMemcpy3D(&volume_copy)),
        CALL(hipMemcpy3D(&too_deep)),
        CALL(hipMemcpy3D(&nowhere)),
        CALL(hipMemcpy3DAsync(&too_deep, stream)),
        CALL(hipMemset(live, 0, kBytes)),
        CALL(hipMemset(live, 0, kBytes + 1)),
        CALL(hipMemset(live + kBytes, 0, 1)),
        CALL(hipMemset(live + kBytes, 0, 0)),
        CALL(hipMemset(nullptr, 0, 1)),
        CALL(hipMemset(nullptr, 0, 0)),
        CALL(hipMemset(host, 0, 1)),
        CALL(hipMemset(freed, 0, 1)),
        CALL(hipMemset(pinned, 0, kBytes + 1)),
        CALL(hipMemsetAsync(live, 0, kBytes + 1, stream)),
        CALL(hipMemsetD8(live, 0, kBytes + 1)),
        CALL(hipMemsetD16(live, 0, kBytes / 2 + 1)),
        CALL(hipMemsetD32(live, 0, kBytes / 4)),
        CALL(hipMemsetD32(live, 0, kBytes / 4 + 1)),
        CALL(hipMemsetD32Async(live, 0, kBytes / 4 + 1, stream)),
        CALL(hipMemset2D(rows, pitch, 0, 100, 10)),
        CALL(hipMemset2D(rows, pitch, 0, 100, 11)),
        CALL(hipMemset2DAsync(rows, pitch, 0, 100, 11, stream)),
        CALL(hipMemset3D(pitched, 0, small)),
        CALL(hipMemset3D(pitched, 0, large)),
        CALL(hipMemset3DAsync(pitched, 0, large, stream)),
        CALL(hipMemcpyToSymbol(HIP_SYMBOL(variable), host, 4)),
        CALL(hipMemcpyToSymbol(HIP_SYMBOL(variable), host, 5)),
        CALL(hipMemcpyToSymbol(HIP_SYMBOL(variable), live, 4, 0, hipMemcpyDeviceToDevice)),
        CALL(hipMemcpyToSymbol(HIP_SYMBOL(variable), live + kBytes - 3, 4, 0, hipMemcpyDeviceToDevice)),
        CALL(hipMemcpyFromSymbol(live + kBytes - 3, HIP_SYMBOL(variable), 4, 0, hipMemcpyDeviceToDevice)),
        CALL(hipMemcpyFromSymbol(host, HIP_SYMBOL(variable), 4, 4)),
        CALL(hipGetSymbolAddress(&out, host)),
        CALL(hipGetSymbolSize(&size, host)),
        CALL(hipMemGetInfo(&size, &total)),
        CALL(hipMemGetInfo(nullptr, &total)),
        {"what is free is what is not allocated", [&]() -> hipError_t {
            size_t before = 0, within = 0, after = 0;
            (void)hipMemGetInfo(&before, &total);
            hipError_t status = hipMalloc(&out, 64 << 20);
            (void)hipMemGetInfo(&within, &total);
            (void)hipFree(out);
            (void)hipMemGetInfo(&after, &total);
            std::printf(" %d", after <= total);
            return status;
        }},
        CALL(hipMemGetAddressRange(&base, &size, live + 5), on(live, base), std::printf(" %zu", size), hipPeekAtLastError()),
        CALL(hipMemGetAddressRange(&base, &size, rows + 5), on(rows, base), std::printf(" %zu", size), hipPeekAtLastError()),
        CALL(hipMemGetAddressRange(&base, &size, live + kBytes)),
        CALL(hipMemGetAddressRange(&base, &size, host)),
        CALL(hipMemGetAddressRange(&base, &size, freed)),
        CALL(hipMemGetAddressRange(nullptr, &size, live)),
        CALL(hipMemPtrGetInfo(live + 5, &size), std::printf(" %zu", size), hipPeekAtLastError()),
        CALL(hipMemPtrGetInfo(freed, &size)),
        {"attributes of a pointer", [&]() -> hipError_t {
            hipError_t status = hipPointerGetAttributes(&attributes, live + 8);
            if (status == hipSuccess) {
#if HIP_VERSION_MAJOR >= 6
                std::printf(" %d", attributes.type);
#else
                std::printf(" %d", attributes.memoryType);
#endif
                std::printf(" %d %d %u", attributes.device, attributes.isManaged, attributes.allocationFlags);
                on(live + 8, attributes.devicePointer);
                on(live + 8, attributes.hostPointer);
            }
            return status;
        }},
        CALL(hipPointerGetAttributes(&attributes, live + kBytes)),
        CALL(hipPointerGetAttributes(&attributes, freed)),
        CALL(hipPointerGetAttributes(&attributes, host)),
        CALL(hipPointerGetAttributes(&attributes, nullptr)),
        CALL(hipPointerGetAttributes(nullptr, live)),
        CALL(hipPointerGetAttribute(&number, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, live), std::printf(" %d", number), hipPeekAtLastError()),
        CALL(hipPointerGetAttribute(&base, HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, live + 9), on(live, base), hipPeekAtLastError()),
        CALL(hipPointerGetAttribute(&size, HIP_POINTER_ATTRIBUTE_RANGE_SIZE, live + 9), std::printf(" %zu", size), hipPeekAtLastError()),
        CALL(hipPointerGetAttribute(&number, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, live)),
        CALL(hipPointerGetAttribute(&number, HIP_POINTER_ATTRIBUTE_IS_MANAGED, live)),
        CALL(hipPointerGetAttribute(&size, HIP_POINTER_ATTRIBUTE_RANGE_SIZE, freed)),
        CALL(hipPointerGetAttribute(&size, HIP_POINTER_ATTRIBUTE_RANGE_SIZE, host)),
        CALL(hipHostGetDevicePointer(&out, pinned, 0), on(pinned, out), hipPeekAtLastError()),
        CALL(hipHostGetDevicePointer(&out, host, 0)),
        CALL(hipHostGetDevicePointer(&out, live, 0)),
        CALL(hipHostGetFlags(reinterpret_cast<unsigned *>(&number), pinned), std::printf(" %d", number), hipPeekAtLastError()),
        CALL(hipHostGetFlags(reinterpret_cast<unsigned *>(&number), live)),
        CALL(hipHostRegister(registered, kBytes, 0), hipHostRegister(registered, kBytes, 0)),
        CALL(hipHostUnregister(registered)),
        CALL(hipHostUnregister(host)),
        CALL(hipHostUnregister(live)),
        CALL(hipMemAdvise(live, kBytes, hipMemAdviseSetReadMostly, 0)),
        CALL(hipMemAdvise(live, 2 * kBytes, hipMemAdviseSetReadMostly, 0)),
        CALL(hipMemPrefetchAsync(managed, kBytes, 0, stream)),
        CALL(hipMemPrefetchAsync(live, 2 * kBytes, 0, stream)),
        CALL(hipDeviceGetDefaultMemPool(&pool, 0)),
        CALL(hipDeviceGetDefaultMemPool(&pool, 9)),
        CALL(hipStreamQuery(stream)),
        CALL(hipStreamSynchronize(stream)),
        CALL(hipStreamSynchronize(reinterpret_cast<hipStream_t>(8))),
        CALL(hipStreamDestroy(reinterpret_cast<hipStream_t>(8))),
        CALL(hipStreamWaitEvent(stream, event, 0)),
        CALL(hipEventRecord(event, stream)),
        CALL(hipEventQuery(event)),
        CALL(hipEventRecord(nullptr, stream)),
        CALL(hipEventElapsedTime(nullptr, event, other)),
        CALL(hipModuleLoad(&module, "/no/such/file")),
        CALL(hipModuleLoadData(&module, host)),
        CALL(hipModuleUnload(nullptr)),
        CALL(hipModuleGetFunction(nullptr, nullptr, "add")),
        CALL(hipFuncGetAttributes(&function, kernel), std::printf(" %d", function.maxThreadsPerBlock), hipPeekAtLastError()),
        CALL(hipFuncGetAttributes(&function, host)),
        CALL(hipOccupancyMaxActiveBlocksPerMultiprocessor(&number, kernel, 256, 0), std::printf(" %d", number), hipPeekAtLastError()),
        CALL(hipOccupancyMaxActiveBlocksPerMultiprocessor(&number, kernel, 0, 0)),
        CALL(launched(1, 64, 0)),
        CALL(launched(1, 65, 0)),
        CALL(launched(1, 5000, 0)),
        CALL(launched(1, 5001, 0)),
        CALL(launched(0, 64, 0)),
        CALL(launched(1, 0, 0)),
        CALL(launched(1, 64, 1 << 20)),
        CALL(hipLaunchKernel(host, dim3(1), dim3(1), parameters, 0, stream)),
        CALL(hipLaunchKernel(kernel, dim3(1), dim3(1), parameters, 0, reinterpret_cast<hipStream_t>(8))),
        CALL(hipLaunchCooperativeKernel(kernel, dim3(1), dim3(64), parameters, 0, stream)),
        CALL(hipLaunchCooperativeKernel(kernel, dim3(1000000), dim3(64), parameters, 0, stream)),
        CALL((add<<<1, 64>>>(values, 1), hipSuccess)),
        CALL((add<<<1, 6000>>>(values, 1), hipSuccess)),
        CALL((add<<<1, 6000>>>(values, 1), add<<<1, 64>>>(values, 1), hipSuccess)),
        CAPTURED(hipStreamCaptureModeGlobal, launched(1, 64, 0)),
        CAPTURED(hipStreamCaptureModeRelaxed, launched(1, 64, 0)),
        CAPTURED(hipStreamCaptureModeGlobal, hipMalloc(&out, 100)),
        CAPTURED(hipStreamCaptureModeThreadLocal, hipMalloc(&out, 100)),
        CAPTURED(hipStreamCaptureModeRelaxed, hipMalloc(&out, 100)),
        CAPTURED(hipStreamCaptureModeGlobal, hipMallocPitch(&out, &size, 100, 10)),
        CAPTURED(hipStreamCaptureModeRelaxed, hipMemsetAsync(live, 0, kBytes, stream)),
        CAPTURED(hipStreamCaptureModeRelaxed, hipMemcpyAsync(live, host, kBytes, hipMemcpyHostToDevice, stream)),
        CAPTURED(hipStreamCaptureModeRelaxed, hipStreamSynchronize(stream)),
        CALL(hipStreamEndCapture(stream, &graph)),
        CALL(hipGraphLaunch(nullptr, stream)),
        {"another thread's", [&]() -> hipError_t {
            hipError_t status = hipErrorUnknown;
            int device = -1;
            std::thread([&] {
                (void)hipGetDevice(&device);
                (void)hipFree(live + 1);
                status = hipGetLastError();
            }).join();
            std::printf(" %d", device);
            return status;
        }},
        CALL(hipPeekAtLastError()),
        CALL(hipGetLastError()),
        CALL(hipGetLastError()),
    };
    (void)volume;

    if (faults) {
        add<<<1, 64>>>(reinterpret_cast<int *>(8), 1);
        std::printf("fault %s\n", hipGetErrorName(hipDeviceSynchronize()));
    }
    // Each is made two times, in another order each time.
    unsigned state = order;
    auto next = [&] { return state = state * 1664525u + 1013904223u, state >> 16; };
    for (int round = 0; round < 2; ++round) {
        if (order)
            for (size_t left = calls.size(); left > 1; --left)
                std::swap(calls[left - 1], calls[next() % left]);
        for (auto &[text, call] : calls) {
            std::printf("%s:", text);
            hipError_t status = call();
            std::printf(" %s", hipGetErrorName(status));
            // Asked in several ways, or not at all.
            unsigned ask = order ? next() % 4 : round;
            if (ask & 1)
                std::printf(", then %s", hipGetErrorName(hipPeekAtLastError()));
            if (ask & 2)
                std::printf(", last %s", hipGetErrorName(hipGetLastError()));
            std::printf("\n");
        }
    }
    // What was allocated dies with the device's state.
    std::printf("reset %s", hipGetErrorName(hipDeviceReset()));
    std::printf(" %s", hipGetErrorName(hipMemset(live, 0, 1)));
    std::printf(" %s", hipGetErrorName(hipFree(live)));
    std::printf(" %s\n", hipGetErrorName(hipMalloc(&live, kBytes)));
    std::printf("statuses: ok\n");
    return 0;
}
