// Text from the device, with every kind of argument, and an assertion that holds. The thread that prints counts lines,
// so that memory tells whether it ran.
#include "../check.cuh"

#include <cassert>

__global__ void printing(const int *values, int n, int *lines) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    assert(n > 0);
    // One thread, so that the order is known: blocks print as they run.
    if (i == 0) {
        printf("first %d of %s: %5.2f %lu %c %%\n", values[0], "several", 0.5 * values[1], 1ul << 40, 'x');
        printf("last %d\n", values[n - 1]);
        *lines = 2;
    }
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 100));
    std::vector<int> host(n);
    for (int i = 0; i < n; ++i)
        host[i] = i + 3;
    DeviceArray<int> values(host), lines(1);
    printing<<<blocks_for(n, 64), 64>>>(values.get(), n, lines.get());
    LAUNCH_OK();
    return finish("printing", values.download() == host && lines.download()[0] == 2, n);
}
