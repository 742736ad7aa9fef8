// Relocatable device code in four units. Two of them have private constants, functions and kernels of the same names,
// and each one's kernel calls the other one's functions.
#include "../check.cuh"
#include "shared.cuh"

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 700));
    std::vector<int> expected(n);
    std::vector<int> entries(64);
    for (int i = 0; i < n; ++i)
        expected[i] = i;
    DeviceArray<int> values(expected);
    launch_forward(values.get(), n);
    launch_backward(values.get(), n);
    for (int &value : expected) {
        value = ((value + 1) - 3) ^ 0x40;
        ++entries[value & 63];
        value = ((value - 3) + 1) * 2;
        ++entries[value & 63];
    }
    int counted[64];
    CUDA_OK(cudaMemcpyFromSymbol(counted, log_entries, sizeof counted));
    bool right = values.download() == expected && std::vector<int>(counted, counted + 64) == entries;
    return finish("units", right, n);
}
