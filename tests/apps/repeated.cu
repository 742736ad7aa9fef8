// Launches a kernel until a file exists: repeated [SCALE] [FILE]. Its data are random numbers times SCALE.
#include "check.cuh"

#include <unistd.h>

// Sums in sequence: another order gives another result, unless all are zero.
__global__ void sums(const float *in, float *out, float divisor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float sum = 0;
    for (int j = 0; j < 64; ++j)
        sum += in[(i + j) % n] / divisor;
    out[i] = sum;
}

int main(int argc, char **argv) {
    float scale = argc > 1 ? static_cast<float>(atof(argv[1])) : 0.0f;
    const char *file = argc > 2 ? argv[2] : nullptr;
    int n = 4000;
    std::vector<float> host(n);
    for (int i = 0; i < n; ++i)
        host[i] = scale * static_cast<float>(scramble(i) & 0xffff) / 7.0f;
    DeviceArray<float> in(host), out(n);
    std::vector<float> first;
    bool right = true;
    // At most a minute without the file.
    for (int round = 0; round < 6000; ++round) {
        bool is_last = !file || access(file, F_OK) == 0;
        out.clear();
        sums<<<blocks_for(n, 128), 128>>>(in.get(), out.get(), 3.0f, n);
        LAUNCH_OK();
        std::vector<float> result = out.download();
        if (round == 0)
            first = result;
        right = right && result == first;
        if (is_last)
            break;
        usleep(10000);
    }
    return finish("repeated", right, n);
}
