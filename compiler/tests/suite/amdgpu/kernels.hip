// Kernels for AMD GPUs, each with a different feature in its code object's metadata.
#include <hip/hip_runtime.h>

struct Numbers {
    int count;
    float scale;
    double shift;
};

struct Buffers {
    float *to;
    const float *from;
    int count;
    short step;
};

__device__ float total;
__constant__ float weights[16];

extern "C" __global__ void scale(float *out, const float *in, int count, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = in[i] * by;
}

extern "C" __global__ void by_value(Numbers numbers, Buffers buffers, char c, double *out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < numbers.count) buffers.to[i * buffers.step] = buffers.from[i] * numbers.scale + c;
    if (i == 0) *out = numbers.shift + buffers.count;
}

extern "C" __global__ void reduce(const float *in, float *out, int count) {
    __shared__ float sums[256];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    sums[t] = i < count ? in[i] : 0;
    __syncthreads();
    for (int k = blockDim.x / 2; k; k /= 2) {
        if (t < k) sums[t] += sums[t + k];
        __syncthreads();
    }
    if (!t) atomicAdd(out, sums[0]);
}

extern "C" __global__ void dynamic(float *out, int count) {
    extern __shared__ float room[];
    room[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x < count) out[threadIdx.x] = room[count - 1 - threadIdx.x];
}

extern "C" __global__ void grid(int *out) {
    int i = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    out[i] = blockDim.x * blockDim.y * blockDim.z + gridDim.x * gridDim.y * gridDim.z;
}

extern "C" __global__ void __launch_bounds__(128) bounded(float *out, int count) {
    float values[24];
    for (int k = 0; k < 24; ++k) values[k] = out[threadIdx.x * 24 + k];
    for (int round = 0; round < count; ++round)
        for (int k = 0; k < 24; ++k) values[k] = values[k] * values[(k + 7) % 24] + round;
    for (int k = 0; k < 24; ++k) out[threadIdx.x * 24 + k] = values[k];
}

extern "C" __global__ void scratch(int *out, int at) {
    volatile int room[64];
    for (int k = 0; k < 64; ++k) room[k] = k * at;
    out[threadIdx.x] = room[at & 63];
}

extern "C" __global__ void functions(float *out, const float *in) {
    int t = threadIdx.x;
    out[t] = sinf(in[t]) + expf(in[t]) * powf(in[t], 2.5f) + sqrtf(in[t]) / in[t + 1];
}

extern "C" __global__ void variables(float *out) {
    out[threadIdx.x] = weights[threadIdx.x & 15];
    if (threadIdx.x == 0) atomicAdd(&total, 1.0f);
}

extern "C" __global__ void weighted(float *out, const float *in, int width) {
    float sum = 0;
    for (int j = 0; j < 4; ++j)
        for (int i = 0; i < 4; ++i) sum += in[j * width + threadIdx.x + i] * weights[j * 4 + i];
    out[threadIdx.x] = sum + total;
}

extern "C" __global__ void says(int number) {
    if (threadIdx.x == 0) printf("%d\n", number);
}
