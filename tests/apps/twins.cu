// One of two kernels with equal parameters, launched until a file exists: twins add|multiply FILE. The program checks
// each result.
#include "check.cuh"

#include <cstring>
#include <unistd.h>

__global__ void add(unsigned *values, int by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = values[i] + by;
}

__global__ void multiply(unsigned *values, int by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = values[i] * by;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 64;
    bool adds = std::strcmp(argv[1], "add") == 0, right = true;
    int n = 1000;
    DeviceArray<unsigned> values(std::vector<unsigned>(n, 1));
    unsigned expected = 1;
    // At most a minute without the file.
    for (int round = 0; round < 6000 && access(argv[2], F_OK) != 0; ++round) {
        if (adds)
            add<<<4, 256>>>(values.get(), 3, n);
        else
            multiply<<<4, 256>>>(values.get(), 3, n);
        LAUNCH_OK();
        expected = adds ? expected + 3 : expected * 3;
        right = right && values.download() == std::vector<unsigned>(n, expected);
        usleep(10000);
    }
    return finish(argv[1], right, n);
}
