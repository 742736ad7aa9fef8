// Heat flow on an n x n plate: a five-point stencil with a tile and its halo in shared memory. Two ping-pong
// launches with different rates make two instances of one kernel. The second one starts from the first one's
// result.
#include "check.cuh"

#include <cmath>

constexpr int TILE = 16;

__global__ void stencil(const float *from, float *to, int n, float rate) {
    __shared__ float tile[TILE + 2][TILE + 2];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    auto at = [&](int column, int row) {
        column = column < 0 ? 0 : column >= n ? n - 1 : column;
        row = row < 0 ? 0 : row >= n ? n - 1 : row;
        return from[static_cast<size_t>(row) * n + column];
    };
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    tile[ty][tx] = at(x, y);
    if (threadIdx.x == 0)
        tile[ty][0] = at(x - 1, y);
    if (threadIdx.x == TILE - 1)
        tile[ty][TILE + 1] = at(x + 1, y);
    if (threadIdx.y == 0)
        tile[0][tx] = at(x, y - 1);
    if (threadIdx.y == TILE - 1)
        tile[TILE + 1][tx] = at(x, y + 1);
    __syncthreads();
    if (x < n && y < n) {
        float centre = tile[ty][tx];
        float around = tile[ty][tx - 1] + tile[ty][tx + 1] + tile[ty - 1][tx] + tile[ty + 1][tx];
        to[static_cast<size_t>(y) * n + x] = centre + rate * (around - 4.0f * centre);
    }
}

static std::vector<double> expected(const std::vector<double> &from, int n, double rate) {
    auto at = [&](int column, int row) {
        column = column < 0 ? 0 : column >= n ? n - 1 : column;
        row = row < 0 ? 0 : row >= n ? n - 1 : row;
        return from[static_cast<size_t>(row) * n + column];
    };
    std::vector<double> to(from.size());
    for (int y = 0; y < n; ++y)
        for (int x = 0; x < n; ++x)
            to[static_cast<size_t>(y) * n + x] =
                at(x, y) + rate * (at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1) - 4.0 * at(x, y));
    return to;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 100));
    const float rates[2] = {0.2f, 0.1f};
    std::vector<float> plate(static_cast<size_t>(n) * n);
    for (size_t i = 0; i < plate.size(); ++i)
        plate[i] = unit_float(static_cast<unsigned>(i));
    DeviceArray<float> a(plate), b(plate.size());
    b.clear();
    dim3 grid(blocks_for(n, TILE), blocks_for(n, TILE)), block(TILE, TILE);
    stencil<<<grid, block>>>(a.get(), b.get(), n, rates[0]);
    stencil<<<grid, block>>>(b.get(), a.get(), n, rates[1]);
    LAUNCH_OK();
    std::vector<double> reference(plate.begin(), plate.end());
    reference = expected(expected(reference, n, rates[0]), n, rates[1]);
    std::vector<float> result = a.download();
    bool right = true;
    for (size_t i = 0; i < result.size(); ++i)
        right = right && std::fabs(result[i] - reference[i]) < 1e-5;
    return finish("stencil", right, n);
}
