// A kernel that derives its work from its grid: slices [ELEMENTS GRID]... launches it once per pair. Each block
// processes ELEMENTS / GRID elements, which should be a whole number.
#include "check.cuh"

__global__ void slices(unsigned *values, int n) {
    int each = n / gridDim.x;
    for (int i = threadIdx.x; i < each; i += blockDim.x)
        values[blockIdx.x * each + i] = values[blockIdx.x * each + i] * 1664525u + 1013904223u;
}

int main(int argc, char **argv) {
    bool right = true;
    int last = 0;
    for (int pair = 1; pair + 1 < argc; pair += 2) {
        int n = std::atoi(argv[pair]), grid = std::atoi(argv[pair + 1]);
        if (n <= 0 || grid <= 0 || n % grid)
            return 64;
        std::vector<unsigned> expected(n);
        for (int i = 0; i < n; ++i)
            expected[i] = scramble(i);
        DeviceArray<unsigned> values(expected);
        slices<<<grid, 256>>>(values.get(), n);
        LAUNCH_OK();
        for (unsigned &value : expected)
            value = value * 1664525u + 1013904223u;
        right = right && values.download() == expected;
        last = n;
    }
    return finish("slices", right, last);
}
