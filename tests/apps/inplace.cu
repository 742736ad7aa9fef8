// Computes x = 3 x + 1 in place, three times. If a replay does not restore memory between iterations, it gets a
// different result each time.
#include "check.cuh"

__global__ void inplace(unsigned *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = 3 * x[i] + 1;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 10000));
    std::vector<unsigned> x(n);
    for (int i = 0; i < n; ++i)
        x[i] = scramble(i);
    DeviceArray<unsigned> device_x(x);
    for (int launch = 0; launch < 3; ++launch)
        inplace<<<blocks_for(n, 256), 256>>>(device_x.get(), n);
    LAUNCH_OK();
    std::vector<unsigned> result = device_x.download();
    bool right = true;
    for (int i = 0; i < n; ++i)
        right = right && result[i] == 27 * x[i] + 13;
    return finish("inplace", right, n);
}
