// printf from device code. A single thread prints, so the order of lines is fixed. It also counts them in memory, which
// shows whether it ran.
#include "check.cuh"

__global__ void print(const int *values, int n, int *lines) {
    if (blockIdx.x != 0 || threadIdx.x != 0)
        return;
    printf("device: %d values\n", n);
    for (int i = 0; i < n && i < 3; ++i)
        printf("device: [%d] %5d 0x%08x %c %s %.3f %lld%%\n", i, values[i], values[i], 'a' + i, i % 2 ? "odd" : "even",
               values[i] * 0.5, static_cast<long long>(values[i]) << 33);
    *lines = 1 + (n < 3 ? n : 3);
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 3));
    std::vector<int> values(n);
    for (int i = 0; i < n; ++i)
        values[i] = 11 * i - 4;
    DeviceArray<int> device_values(values);
    DeviceArray<int> lines(1);
    print<<<2, 32>>>(device_values.get(), n, lines.get());
    LAUNCH_OK();
    return finish("print", device_values.download() == values && lines.download()[0] == 1 + (n < 3 ? n : 3), n);
}
