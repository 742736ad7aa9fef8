// What HIP has for a program beside launches: properties, symbols, managed variables, what pointers are, launches with
// events, graphs, volumes. Each answer is compared with what it has to be.
#include "../check.cuh"

#include <cstring>
#include <hip/hip_ext.h>

#define WANT(what)                                                                                                     \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                                            \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

__managed__ int counter = 40;
__constant__ int factors[4];
__device__ int total = 7;

__global__ void scale(int *values, int n, int factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = values[i] * factor + factors[i % 4];
    if (i == 0) {
        counter += 2;
        total += n;
    }
}

__global__ void reversed(int *values) {
    extern __shared__ int shared[];
    shared[threadIdx.x * 200] = threadIdx.x;
    __syncthreads();
    values[threadIdx.x] = shared[(63 - threadIdx.x) * 200];
}

static void count_call(void *calls) { ++*static_cast<int *>(calls); }

static void device() {
    hipDeviceProp_t properties;
    CUDA_OK(hipGetDeviceProperties(&properties, 0));
    int value;
    CUDA_OK(hipDeviceGetAttribute(&value, hipDeviceAttributeWarpSize, 0));
    WANT(value == properties.warpSize && (value == 64 || value == 32));
    CUDA_OK(hipDeviceGetAttribute(&value, hipDeviceAttributeMultiprocessorCount, 0));
    WANT(value == properties.multiProcessorCount);
    WANT(std::strncmp(properties.gcnArchName, "gfx", 3) == 0 && properties.sharedMemPerBlock == 65536);
}

static void variables(int *values, int n) {
    WANT(counter == 40);
    counter = 41;
    int constants[4] = {1, 2, 3, 4}, seen;
    CUDA_OK(hipMemcpyToSymbol(HIP_SYMBOL(factors), constants, sizeof constants));
    CUDA_OK(hipMemset(values, 0, n * sizeof(int)));
    scale<<<4, 256>>>(values, n, 3);
    LAUNCH_OK();
    WANT(counter == 43);
    CUDA_OK(hipMemcpyFromSymbol(&seen, HIP_SYMBOL(total), sizeof seen));
    size_t bytes;
    CUDA_OK(hipGetSymbolSize(&bytes, HIP_SYMBOL(total)));
    WANT(seen == 7 + n && bytes == sizeof(int));
}

static void memory(int *values) {
    hipPointerAttribute_t attributes;
    CUDA_OK(hipPointerGetAttributes(&attributes, values));
    WANT(attributes.devicePointer == values && !attributes.isManaged);
    void *pinned;
    CUDA_OK(hipHostMalloc(&pinned, 64, 0));
    CUDA_OK(hipPointerGetAttributes(&attributes, pinned));
    WANT(attributes.hostPointer == pinned);
    CUDA_OK(hipFree(pinned));
    const unsigned kinds[] = {hipHostMallocDefault, hipHostMallocMapped | hipHostMallocCoherent, hipHostMallocNonCoherent};
    for (unsigned asked : kinds) {
        unsigned flags = 77;
        CUDA_OK(hipHostMalloc(&pinned, 64, asked));
        CUDA_OK(hipHostGetFlags(&flags, pinned));
        CUDA_OK(hipPointerGetAttributes(&attributes, pinned));
        WANT(flags == asked && attributes.allocationFlags == asked);
        CUDA_OK(hipHostFree(pinned));
    }
    hipExtent extent = make_hipExtent(16, 4, 2);
    hipPitchedPtr volume;
    CUDA_OK(hipMalloc3D(&volume, extent));
    CUDA_OK(hipMemset3D(volume, 7, extent));
    char back[128] = {};
    HIP_MEMCPY3D copy = {};
    copy.srcMemoryType = hipMemoryTypeDevice;
    copy.srcDevice = volume.ptr;
    copy.srcPitch = volume.pitch;
    copy.srcHeight = 4;
    copy.dstMemoryType = hipMemoryTypeHost;
    copy.dstHost = back;
    copy.dstPitch = 16;
    copy.dstHeight = 4;
    copy.WidthInBytes = 16;
    copy.Height = 4;
    copy.Depth = 2;
    CUDA_OK(hipDrvMemcpy3D(&copy));
    WANT(back[0] == 7 && back[127] == 7);
    CUDA_OK(hipFree(volume.ptr));
}

static void launches(int *values, int n) {
    reversed<<<1, 64, 64 * 200 * sizeof(int)>>>(values);
    LAUNCH_OK();
    int first;
    CUDA_OK(hipMemcpy(&first, values, sizeof first, hipMemcpyDeviceToHost));
    WANT(first == 63);
    reversed<<<1, 64, 70000>>>(values);
    WANT(hipGetLastError() != hipSuccess);
    hipEvent_t start, stop;
    CUDA_OK(hipEventCreate(&start));
    CUDA_OK(hipEventCreate(&stop));
    int factor = 5;
    void *arguments[] = {&values, &n, &factor};
    const void *function = reinterpret_cast<const void *>(scale);
    CUDA_OK(hipExtLaunchKernel(function, dim3(4), dim3(256), arguments, 0, nullptr, start, stop, 0));
    CUDA_OK(hipEventSynchronize(stop));
    float milliseconds = -1;
    CUDA_OK(hipEventElapsedTime(&milliseconds, start, stop));
    WANT(milliseconds >= 0);
    // A successful call clears what the last one has said.
    WANT(hipMalloc(static_cast<void **>(nullptr), 8) == hipErrorInvalidValue);
    WANT(hipPeekAtLastError() == hipErrorInvalidValue);
    CUDA_OK(hipGetDevice(&first));
    WANT(hipGetLastError() == hipSuccess);
}

static void graph(int *values, int n) {
    int factor = 5, calls = 0;
    void *arguments[] = {&values, &n, &factor};
    hipGraph_t graph;
    hipGraphNode_t fill, kernel, host;
    CUDA_OK(hipGraphCreate(&graph, 0));
    hipMemsetParams what = {};
    what.dst = values, what.elementSize = 4, what.height = 1, what.value = 2, what.width = n;
    CUDA_OK(hipGraphAddMemsetNode(&fill, graph, nullptr, 0, &what));
    hipKernelNodeParams launch = {};
    launch.func = reinterpret_cast<void *>(scale);
    launch.gridDim = dim3(4), launch.blockDim = dim3(256), launch.kernelParams = arguments;
    CUDA_OK(hipGraphAddKernelNode(&kernel, graph, &fill, 1, &launch));
    hipHostNodeParams call = {count_call, &calls};
    CUDA_OK(hipGraphAddHostNode(&host, graph, &kernel, 1, &call));
    size_t roots = 0;
    CUDA_OK(hipGraphGetRootNodes(graph, nullptr, &roots));
    WANT(roots == 1);
    hipGraphExec_t executable;
    CUDA_OK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    CUDA_OK(hipGraphLaunch(executable, nullptr));
    CUDA_OK(hipDeviceSynchronize());
    int second;
    CUDA_OK(hipMemcpy(&second, values + 1, sizeof second, hipMemcpyDeviceToHost));
    WANT(second == 12 && calls == 1);
    CUDA_OK(hipGraphExecDestroy(executable));
    CUDA_OK(hipGraphDestroy(graph));
}

static void capture(int *values) {
    hipStream_t stream;
    CUDA_OK(hipStreamCreate(&stream));
    CUDA_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    reversed<<<1, 32, 64 * 200 * sizeof(int), stream>>>(values);
    hipGraph_t graph;
    CUDA_OK(hipStreamEndCapture(stream, &graph));
    size_t nodes = 0;
    CUDA_OK(hipGraphGetNodes(graph, nullptr, &nodes));
    WANT(nodes == 1);
    CUDA_OK(hipGraphDestroy(graph));
    CUDA_OK(hipStreamDestroy(stream));
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 1000));
    DeviceArray<int> values(n);
    device();
    variables(values.get(), n);
    memory(values.get());
    launches(values.get(), n);
    graph(values.get(), n);
    capture(values.get());
    return finish("interface", true, n);
}
