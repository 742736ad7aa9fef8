// Variables of all kinds, in code that compiles differently if the compiler does not know what a variable is.
__constant__ float weights[25];                                  // the host writes it
__constant__ const float steps[4] = {0.25f, 0.5f, 1.0f, 2.0f};   // constant: its contents become part of the code
static __constant__ float halves[4] = {0.5f, 0.25f, 0.125f, 1};  // private: the same, after an analysis of all code
__device__ float bias = 1.5f;
__device__ float history[64];
static __device__ float gain = 3;   // private: no pointer leads to it
static __device__ int rounds;       // private, used by one kernel
static __device__ float latest[8];  // private, but a pointer to it is stored in memory

extern "C" __global__ void convolution(const float *in, float *out, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= width || y >= height)
        return;
    float sum = 0;
    for (int j = 0; j < 5; ++j)
        for (int i = 0; i < 5; ++i)
            sum += in[(y + j) * (width + 4) + x + i] * weights[j * 5 + i];
    out[y * width + x] = sum;
}

extern "C" __global__ void folded(float *out, int n) {
    int i = threadIdx.x;
    out[i] = steps[2] * bias + halves[1] + steps[i & 3];
    for (int k = 0; k < 4; ++k)
        history[4 * i + k] = out[i + k] * halves[k];
}

extern "C" __global__ void hoisted(float *out, int n) {
    for (int i = 0; i < n; ++i)
        out[i] *= gain;
    rounds += n;
    out[0] += rounds;
}

extern "C" __global__ void tuned(float by) {
    gain = by;
}

extern "C" __global__ void shown(float **place, int n) {
    *place = latest;
    latest[n & 7] += bias;
    for (int k = 0; k < 4; ++k)
        history[k] = history[k + 4] + latest[k];
}
