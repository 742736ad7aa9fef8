// A program whose kernels are in two independent shared libraries. Their kernels, device variables and functions have
// the same names but different effects. The program also has its own kernel.
#include "../check.cuh"

extern "C" unsigned long long double_all(int *device_values, int n);
extern "C" unsigned long long triple_all(int *device_values, int n);

__global__ void fill(int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = i;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 1000));
    DeviceArray<int> values(n);
    fill<<<blocks_for(n, 128), 128>>>(values.get(), n);
    LAUNCH_OK();
    bool right = double_all(values.get(), n) == 2ull * n;
    right = triple_all(values.get(), n) == 3ull * n && right;
    std::vector<int> result = values.download();
    for (int i = 0; i < n; ++i)
        right = right && result[i] == (i * 2 + 2) * 3 + 3;
    return finish("libraries", right, n);
}
