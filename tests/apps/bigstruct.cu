// A 100-byte structure passed by value, with members of several sizes, and a three-dimensional launch.
#include "check.cuh"

struct Parameters {
    float matrix[3][4];
    int extent[3];
    short shifts[4];
    char letters[31];
    bool flip;
};
static_assert(sizeof(Parameters) == 100, "the point of this program is an argument of 100 bytes");

__global__ void bigstruct(Parameters p, float *out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,
        z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= p.extent[0] || y >= p.extent[1] || z >= p.extent[2])
        return;
    float sum = p.matrix[z % 3][0] * x + p.matrix[z % 3][1] * y + p.matrix[z % 3][2] * z + p.matrix[z % 3][3];
    sum += p.shifts[(x + y) % 4] + p.letters[(x + z) % 31];
    out[(z * p.extent[1] + y) * p.extent[0] + x] = p.flip ? -sum : sum;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 20));
    Parameters p{};
    for (int row = 0; row < 3; ++row)
        for (int column = 0; column < 4; ++column)
            p.matrix[row][column] = static_cast<float>(row * 4 + column - 5);
    p.extent[0] = n;
    p.extent[1] = n + 1;
    p.extent[2] = 5;
    for (int i = 0; i < 4; ++i)
        p.shifts[i] = static_cast<short>(1000 * i - 1500);
    for (int i = 0; i < 31; ++i)
        p.letters[i] = static_cast<char>('A' + i);
    p.flip = true;
    size_t cells = static_cast<size_t>(p.extent[0]) * p.extent[1] * p.extent[2];
    DeviceArray<float> out(cells);
    dim3 block(8, 4, 2), grid(blocks_for(p.extent[0], 8), blocks_for(p.extent[1], 4), blocks_for(p.extent[2], 2));
    bigstruct<<<grid, block>>>(p, out.get());
    LAUNCH_OK();
    std::vector<float> result = out.download();
    bool right = true;
    for (int z = 0; z < p.extent[2]; ++z)
        for (int y = 0; y < p.extent[1]; ++y)
            for (int x = 0; x < p.extent[0]; ++x) {
                float sum = p.matrix[z % 3][0] * x + p.matrix[z % 3][1] * y + p.matrix[z % 3][2] * z + p.matrix[z % 3][3];
                sum += p.shifts[(x + y) % 4] + p.letters[(x + z) % 31];
                right = right && result[(static_cast<size_t>(z) * p.extent[1] + y) * p.extent[0] + x] == -sum;
            }
    return finish("bigstruct", right, n);
}
