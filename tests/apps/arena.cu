// Floats followed by integers in one allocation, as caching allocators place them.
#include "check.cuh"

#include <cstring>

__global__ void renumber(float *values, int *index, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i] = 2 * values[i];
        index[i] = n - i;
    }
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 4000));
    DeviceArray<float> arena(std::vector<float>(2 * n, 1.5f));
    renumber<<<blocks_for(n, 128), 128>>>(arena.get(), reinterpret_cast<int *>(arena.get() + n), n);
    LAUNCH_OK();
    std::vector<float> result = arena.download();
    bool right = true;
    for (int i = 0; i < n; ++i) {
        int index;
        std::memcpy(&index, &result[n + i], sizeof index);
        right = right && result[i] == 3 && index == n - i;
    }
    return finish("arena", right, n);
}
