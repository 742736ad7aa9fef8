// A convolution with a mask in constant memory and an offset in a device variable. The fusing of its products depends
// on the compiler's arrangement, which depends on all it knows about both variables.
#include "check.cuh"

#include <cmath>

constexpr int WIDTH = 5;

__constant__ float mask[WIDTH * WIDTH];
__device__ float offsets[4];

__global__ void convolution(const float *in, float *out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= w || y >= h)
        return;
    float sum = 0;
    for (int j = 0; j < WIDTH; ++j)
        for (int i = 0; i < WIDTH; ++i)
            sum += in[(y + j) * (w + WIDTH - 1) + x + i] * mask[j * WIDTH + i];
    float tilt = 0;
    for (int k = 0; k < 4; ++k)
        tilt += offsets[k] * in[y * (w + WIDTH - 1) + x + k];
    out[y * w + x] = sum + tilt;
}

int main(int argc, char **argv) {
    int w = static_cast<int>(size_argument(argc, argv, 100)), h = 8, pitch = w + WIDTH - 1;
    std::vector<float> in(static_cast<size_t>(pitch) * (h + WIDTH - 1)), weights(WIDTH * WIDTH), tilts(4);
    for (size_t i = 0; i < in.size(); ++i)
        in[i] = unit_float(static_cast<unsigned>(i)) * 1000;
    for (int i = 0; i < WIDTH * WIDTH; ++i)
        weights[i] = i * 0.37f - 3;
    for (int k = 0; k < 4; ++k)
        tilts[k] = 0.3f * k - 0.5f;
    CUDA_OK(cudaMemcpyToSymbol(mask, weights.data(), weights.size() * sizeof(float)));
    CUDA_OK(cudaMemcpyToSymbol(offsets, tilts.data(), tilts.size() * sizeof(float)));
    DeviceArray<float> from(in), to(static_cast<size_t>(w) * h);
    convolution<<<dim3(blocks_for(w, 64), h), 64>>>(from.get(), to.get(), w, h);
    LAUNCH_OK();
    std::vector<float> result = to.download();
    bool right = true;
    for (int y = 0; y < h; ++y)
        for (int x = 0; x < w; ++x) {
            double sum = 0;
            for (int j = 0; j < WIDTH; ++j)
                for (int i = 0; i < WIDTH; ++i)
                    sum += static_cast<double>(in[(y + j) * pitch + x + i]) * weights[j * WIDTH + i];
            for (int k = 0; k < 4; ++k)
                sum += static_cast<double>(tilts[k]) * in[y * pitch + x + k];
            right = right && std::fabs(result[y * w + x] - sum) < 0.05;
        }
    return finish("convolution", right, w);
}
