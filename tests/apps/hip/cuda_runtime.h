// CUDA's runtime functions implemented with HIP, as far as the programs of the parent folder use them, so one source
// works for both. clang gets it with -include, as it includes CUDA's own header for CUDA sources.
#pragma once

#include <hip/hip_runtime.h>

#define cudaChannelFormatDesc hipChannelFormatDesc
#define cudaChannelFormatKindFloat hipChannelFormatKindFloat
#define cudaCreateChannelDesc hipCreateChannelDesc
#define cudaDeviceCanAccessPeer hipDeviceCanAccessPeer
#define cudaDeviceDisablePeerAccess hipDeviceDisablePeerAccess
#define cudaDeviceEnablePeerAccess hipDeviceEnablePeerAccess
#define cudaDeviceGetAttribute hipDeviceGetAttribute
#define cudaDeviceReset hipDeviceReset
#define cudaDeviceSetLimit hipDeviceSetLimit
#define cudaDeviceSynchronize hipDeviceSynchronize
#define cudaErrorAssert hipErrorAssert
#define cudaErrorInvalidValue hipErrorInvalidValue
#define cudaError_t hipError_t
#define cudaEventCreate hipEventCreate
#define cudaEventCreateWithFlags hipEventCreateWithFlags
#define cudaEventDestroy hipEventDestroy
#define cudaEventDisableTiming hipEventDisableTiming
#define cudaEventRecord hipEventRecord
#define cudaEvent_t hipEvent_t
#define cudaExtent hipExtent
#define cudaFree hipFree
#define cudaFreeAsync hipFreeAsync
#define cudaFuncAttributeMaxDynamicSharedMemorySize hipFuncAttributeMaxDynamicSharedMemorySize
#define cudaFunction_t hipFunction_t
#define cudaGetDevice hipGetDevice
#define cudaGetDeviceCount hipGetDeviceCount
#define cudaGetErrorString hipGetErrorString
#define cudaGetLastError hipGetLastError
#define cudaGraphAddMemcpyNode1D hipGraphAddMemcpyNode1D
#define cudaGraphCreate hipGraphCreate
#define cudaGraphDestroy hipGraphDestroy
#define cudaGraphExecDestroy hipGraphExecDestroy
#define cudaGraphExec_t hipGraphExec_t
#define cudaGraphLaunch hipGraphLaunch
#define cudaGraphNode_t hipGraphNode_t
#define cudaGraph_t hipGraph_t
#define cudaHostGetDevicePointer hipHostGetDevicePointer
#define cudaHostRegister hipHostRegister
#define cudaHostRegisterDefault hipHostRegisterDefault
#define cudaHostRegisterMapped hipHostRegisterMapped
#define cudaHostUnregister hipHostUnregister
#define cudaLaunchHostFunc hipLaunchHostFunc
#define cudaLimitMallocHeapSize hipLimitMallocHeapSize
#define cudaMalloc hipMalloc
#define cudaMalloc3D hipMalloc3D
#define cudaMallocAsync hipMallocAsync
#define cudaMallocFromPoolAsync hipMallocFromPoolAsync
#define cudaMallocManaged hipMallocManaged
#define cudaMallocPitch hipMallocPitch
#define cudaMemAllocationTypePinned hipMemAllocationTypePinned
#define cudaMemGetInfo hipMemGetInfo
#define cudaMemLocationTypeDevice hipMemLocationTypeDevice
#define cudaMemPoolCreate hipMemPoolCreate
#define cudaMemPoolDestroy hipMemPoolDestroy
#define cudaMemPoolProps hipMemPoolProps
#define cudaMemPool_t hipMemPool_t
#define cudaMemcpy hipMemcpy
#define cudaMemcpy2D hipMemcpy2D
#define cudaMemcpy3D hipMemcpy3D
#define cudaMemcpy3DAsync hipMemcpy3DAsync
#define cudaMemcpy3DParms hipMemcpy3DParms
#define cudaMemcpyAsync hipMemcpyAsync
#define cudaMemcpyDeviceToDevice hipMemcpyDeviceToDevice
#define cudaMemcpyDeviceToHost hipMemcpyDeviceToHost
#define cudaMemcpyHostToDevice hipMemcpyHostToDevice
#define cudaMemcpyPeer hipMemcpyPeer
#define cudaMemoryTypeDevice hipMemoryTypeDevice
#define cudaMemset hipMemset
#define cudaMemset3D hipMemset3D
#define cudaMemsetAsync hipMemsetAsync
#define cudaPitchedPtr hipPitchedPtr
#define cudaSetDevice hipSetDevice
#define cudaStreamBeginCapture hipStreamBeginCapture
#define cudaStreamCaptureModeThreadLocal hipStreamCaptureModeThreadLocal
#define cudaStreamCreate hipStreamCreate
#define cudaStreamCreateWithFlags hipStreamCreateWithFlags
#define cudaStreamDestroy hipStreamDestroy
#define cudaStreamEndCapture hipStreamEndCapture
#define cudaStreamNonBlocking hipStreamNonBlocking
#define cudaStreamPerThread hipStreamPerThread
#define cudaStreamSynchronize hipStreamSynchronize
#define cudaStreamWaitEvent hipStreamWaitEvent
#define cudaStream_t hipStream_t
#define cudaSuccess hipSuccess

// Names with differences beyond the prefix.
#define cudaMallocHost hipHostMalloc
#define cudaHostAlloc hipHostMalloc
#define cudaFreeHost hipHostFree
#define cudaHostAllocMapped hipHostMallocMapped
#define cudaHostAllocPortable hipHostMallocPortable
#define cudaDevAttrPageableMemoryAccess hipDeviceAttributePageableMemoryAccess
#define make_cudaExtent make_hipExtent
#define make_cudaPitchedPtr make_hipPitchedPtr
#define make_cudaPos make_hipPos
#define CUDART_CB
#define cudaLaunchKernel hipLaunchKernel
#define cudaLaunchCooperativeKernel hipLaunchCooperativeKernel

// HIP's functions take the address of a variable.
#define cudaMemcpyToSymbol(symbol, ...) hipMemcpyToSymbol(HIP_SYMBOL(symbol), __VA_ARGS__)
#define cudaMemcpyToSymbolAsync(symbol, ...) hipMemcpyToSymbolAsync(HIP_SYMBOL(symbol), __VA_ARGS__)
#define cudaMemcpyFromSymbol(to, symbol, ...) hipMemcpyFromSymbol(to, HIP_SYMBOL(symbol), __VA_ARGS__)
#define cudaGetSymbolAddress(address, symbol) hipGetSymbolAddress(address, HIP_SYMBOL(symbol))

template <typename Kernel> hipError_t cudaFuncSetAttribute(Kernel *kernel, hipFuncAttribute attribute, int value) {
    return hipFuncSetAttribute(reinterpret_cast<const void *>(kernel), attribute, value);
}

// HIP 5.2's versions call an intrinsic that clang 19 no longer has.
#define atomicInc(address, most) __builtin_amdgcn_atomic_inc32(address, most, __ATOMIC_RELAXED, "agent")
#define atomicDec(address, most) __builtin_amdgcn_atomic_dec32(address, most, __ATOMIC_RELAXED, "agent")

inline hipError_t cudaGraphInstantiate(hipGraphExec_t *executable, hipGraph_t graph, unsigned long long flags) {
    return flags ? hipErrorInvalidValue : hipGraphInstantiate(executable, graph, nullptr, nullptr, 0);
}

// HIP's description of a pointer. Before ROCm 6, the kind has another name.
struct cudaPointerAttributes {
    hipMemoryType type;
    int device;
    void *devicePointer;
};
inline hipError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *pointer) {
    hipPointerAttribute_t found = {};
    hipError_t status = hipPointerGetAttributes(&found, pointer);
#if HIP_VERSION_MAJOR < 6
    *attributes = {found.memoryType, found.device, found.devicePointer};
#else
    *attributes = {found.type, found.device, found.devicePointer};
#endif
    return status;
}

// Operations of CUDA's 32-lane warps with all lanes active. On wider waves each half acts as a warp.
template <typename T> __device__ T __shfl_sync(unsigned, T value, int lane) { return __shfl(value, lane, 32); }
template <typename T> __device__ T __shfl_up_sync(unsigned, T value, unsigned by) { return __shfl_up(value, by, 32); }
template <typename T> __device__ T __shfl_down_sync(unsigned, T value, unsigned by) { return __shfl_down(value, by, 32); }
template <typename T> __device__ T __shfl_xor_sync(unsigned, T value, int mask) { return __shfl_xor(value, mask, 32); }
__device__ inline unsigned __ballot_sync(unsigned, int predicate) {
    return static_cast<unsigned>(__ballot64(predicate) >> (__lane_id() & 32));
}
__device__ inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
__device__ inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
__device__ inline void __syncwarp(unsigned = ~0u) {
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
}
