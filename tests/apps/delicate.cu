// Kernels whose result hangs on more than their source fixes: an overflow that is undefined, blocks that race, NaNs
// that -ffast-math would do without. None of it can be seen here; the program is right whatever the kernels write.
#include "check.cuh"

#include <climits>

// Six times the larger half of the numbers is more than an int holds, and undefined: a compiler may divide what wrapped
// round by three, or write two times the number. LLVM's passes do the latter; none of its back ends, and no assembler,
// can.
__global__ void overflow(int *out, int start, int n) {
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n)
        return;
    int sixfold = (start + i) * 6;
    out[i] = sixfold / 3;
}

// Every block writes every element: the last one to come stays.
__global__ void order(unsigned *out, unsigned n) {
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x)
        out[i] = blockIdx.x;
}

// Numbers stay, what is none becomes -1.
__global__ void numbers(float *out, const float *in, int n) {
    int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n)
        out[i] = in[i] != in[i] ? -1.0f : in[i];
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

    bool right = true;
    std::vector<float> result = out.download();
    for (int i = 0; i < n; ++i)
        right = right && result[i] == (i % 7 == 0 ? -1.0f : values[i]);
    return finish("delicate", right, n);
}
