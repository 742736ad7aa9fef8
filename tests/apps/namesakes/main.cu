// Two separately compiled units with private constants and kernels of the same names.
#include "../check.cuh"
#include "shared.cuh"

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 500));
    DeviceArray<int> values(std::vector<int>(n, 1));
    first(values.get(), n);
    second(values.get(), n);
    bool right = true;
    for (int value : values.download())
        right = right && value == (1 + 7) * 11;
    return finish("namesakes", right, n);
}
