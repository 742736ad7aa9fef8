// C = A * B for n x n matrices, tiled through shared memory. The entries are small whole numbers, so every sum is exact
// in any order and with any fusing.
#include "check.cuh"

template <int TILE> __global__ void matmul(const float *a, const float *b, float *c, int n) {
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int base = 0; base < n; base += TILE) {
        int across = base + threadIdx.x, down = base + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < n && across < n ? a[row * n + across] : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] = down < n && column < n ? b[down * n + column] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; ++k)
            sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
        __syncthreads();
    }
    if (row < n && column < n)
        c[row * n + column] = sum;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 72));
    size_t cells = static_cast<size_t>(n) * n;
    std::vector<float> a(cells), b(cells);
    for (size_t i = 0; i < cells; ++i) {
        a[i] = static_cast<float>(scramble(static_cast<unsigned>(i)) % 17) - 8.0f;
        b[i] = static_cast<float>(scramble(static_cast<unsigned>(i + cells)) % 13) - 6.0f;
    }
    DeviceArray<float> device_a(a), device_b(b), device_c(cells);
    constexpr int TILE = 16;
    dim3 grid(blocks_for(n, TILE), blocks_for(n, TILE)), block(TILE, TILE);
    matmul<TILE><<<grid, block>>>(device_a.get(), device_b.get(), device_c.get(), n);
    LAUNCH_OK();
    std::vector<float> result = device_c.download();
    bool right = true;
    for (int row = 0; row < n; ++row)
        for (int column = 0; column < n; ++column) {
            float sum = 0.0f;
            for (int k = 0; k < n; ++k)
                sum += a[static_cast<size_t>(row) * n + k] * b[static_cast<size_t>(k) * n + column];
            right = right && result[static_cast<size_t>(row) * n + column] == sum;
        }
    return finish("matmul", right, n);
}
