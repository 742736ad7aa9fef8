// Kernels without findings of --check. Instructions that it does not watch fill shared memory: asynchronous copies, and
// stores in inline PTX.
#include "check.cuh"
#include <cuda_pipeline.h>

constexpr int THREADS = 64;

__global__ void copies(int4 *out, const int4 *in) {
    __shared__ int4 tile[THREADS];
    __pipeline_memcpy_async(&tile[threadIdx.x], in + threadIdx.x, sizeof(int4));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x ^ 1];
}

__global__ void stores(int *out) {
    __shared__ int values[THREADS];
    int *place = &values[threadIdx.x];
    if (threadIdx.x % 2)
        asm volatile("st.shared.s32 [%0], %1;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(place))), "r"(1) : "memory");
    else
        asm volatile("{ .reg .s32 two; mov.s32 two, 2; st.s32 [%0], two; }" ::"l"(place) : "memory");
    __syncthreads();
    out[threadIdx.x] = values[THREADS - 1 - threadIdx.x];
}

// Every thread writes the same value, so no barrier is needed.
__global__ void same(int4 *out) {
    __shared__ int4 wide;
    __shared__ double value;
    wide = make_int4(1, 2, 3, 4);
    value = 5;
    __syncthreads();
    out[threadIdx.x] = make_int4(wide.x, wide.y, wide.z, static_cast<int>(value));
}

// The copy fills one variable but not the other.
__global__ void besides(int *out, const int *in, int zero) {
    __shared__ int tile[THREADS], other[THREADS];
    __pipeline_memcpy_async(&tile[threadIdx.x], in + threadIdx.x, sizeof(int));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x ^ 1] + (other[threadIdx.x] & zero);
}

int main() {
    DeviceArray<int> in(std::vector<int>(THREADS * 4, 3)), out(THREADS * 4);
    out.clear();
    besides<<<1, THREADS>>>(out.get(), in.get(), 0);
    same<<<1, THREADS>>>(reinterpret_cast<int4 *>(out.get()));
    stores<<<1, THREADS>>>(out.get());
    copies<<<1, THREADS>>>(reinterpret_cast<int4 *>(out.get()), reinterpret_cast<int4 *>(in.get()));
    LAUNCH_OK();
    return finish("unseen", out.download()[0] == 3, THREADS);
}
