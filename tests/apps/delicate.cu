// Kernels whose source does not fix the result: undefined overflow, racing blocks, and NaNs despite -ffast-math. The
// program cannot detect any of them: it succeeds whatever the kernels write.
#include "check.cuh"

#include <climits>

// Six times the larger half of the numbers overflows an int, which is undefined. A compiler may divide the
// wrapped value by three, or write twice the number. LLVM's passes do the latter, but its back ends and
// assemblers cannot.
__global__ void overflow(int *out, int start, int n) {
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n)
        return;
    int sixfold = (start + i) * 6;
    out[i] = sixfold / 3;
}

// Every block writes every element, and the last write stays.
__global__ void order(unsigned *out, unsigned n) {
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        out[i] = blockIdx.x;
}

// Keeps numbers, and replaces NaNs by -1.
__global__ void numbers(float *out, const float *in, int n) {
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n)
        out[i] = in[i] != in[i] ? -1.0f : in[i];
}

// Right on either path. Without its store, one path fails in about one of four runs.
__global__ void coin(float *out, const float *in) {
    float v = in[0] * 2;
    out[1] = v;
    out[0] = v;
    if ((clock64() >> 7 & 3) == 0) {
        __threadfence();
        out[0] = 0;
        __threadfence();
        out[0] = v;
        __threadfence();
    }
}

// Reads uninitialised shared memory, without a visible effect.
__global__ void benign(float *out, const float *in, int n, int zero) {
    __shared__ int flag;
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    int noise = flag & zero;
    if (i < n)
        out[i] = in[i] + static_cast<float>(noise);
}

int main() {
    const int n = 1000;
    DeviceArray<int> doubled(n);
    doubled.clear();
    overflow<<<blocks_for(n, 128), 128>>>(doubled.get(), INT_MAX / 6 - n / 2, n);
    LAUNCH_OK();

    const unsigned many = 32768;
    DeviceArray<unsigned> last(many);
    last.clear();
    order<<<64, 128>>>(last.get(), many);
    LAUNCH_OK();

    std::vector<float> values(n);
    for (int i = 0; i < n; ++i)
        values[i] = i % 7 == 0 ? __builtin_nanf("") : 0.5f * i;
    DeviceArray<float> in(values), out(n);
    numbers<<<blocks_for(n, 128), 128>>>(out.get(), in.get(), n);
    LAUNCH_OK();

    DeviceArray<float> ones(std::vector<float>(n, 1.0f)), copy(n), two(2);
    copy.clear();
    two.clear();
    benign<<<blocks_for(n, 128), 128>>>(copy.get(), ones.get(), n, 0);
    LAUNCH_OK();
    coin<<<1, 1>>>(two.get(), ones.get());
    LAUNCH_OK();

    bool right = true;
    std::vector<float> result = out.download();
    for (int i = 0; i < n; ++i)
        right = right && result[i] == (i % 7 == 0 ? -1.0f : values[i]);
    return finish("delicate", right, n);
}
