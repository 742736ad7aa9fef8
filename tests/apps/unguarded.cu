// Kernels without bounds checks, which overrun their buffers if a launch has more threads: `clear` writes the zeros of
// fresh memory, `twice` copies. `clear` changes only the beginning of a large buffer.
#include "check.cuh"

__global__ void clear(int *values) { values[blockIdx.x * blockDim.x + threadIdx.x] = 0; }

__global__ void twice(int *out, const int *in) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = 2 * in[i];
}

int main() {
    const int n = 10240, cleared = 64 * 256;
    std::vector<int> host(n), large(1 << 20, 7);
    for (int i = 0; i < n; ++i)
        host[i] = i;
    DeviceArray<int> in(host), out(n), values(large);
    out.clear();
    twice<<<40, 256>>>(out.get(), in.get());
    LAUNCH_OK();
    clear<<<64, 256>>>(values.get());
    LAUNCH_OK();
    std::vector<int> doubled = out.download();
    bool right = true;
    for (int i = 0; i < n; ++i)
        right &= doubled[i] == 2 * i;
    large = values.download();
    right &= large[cleared - 1] == 0 && large[cleared] == 7;
    std::printf("unguarded: %s\n", right ? "ok" : "wrong");
    return right ? 0 : 1;
}
