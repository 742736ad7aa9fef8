// y = a * x + y: a pointer and scalars of three types, which specialisation turns into constants. All values are small
// multiples of a half, so the result is exact with and without fusing.
#include "check.cuh"

__global__ void saxpy(int n, float a, const float *x, float *y, double bias, bool negate) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float sum = a * x[i] + y[i] + static_cast<float>(bias);
    y[i] = negate ? -sum : sum;
}

int main(int argc, char **argv) {
    size_t n = size_argument(argc, argv, 20000);
    const float a = 2.5f;
    const double bias = 0.25;
    std::vector<float> x(n), y(n);
    for (size_t i = 0; i < n; ++i) {
        x[i] = 0.5f * (i % 2048);
        y[i] = static_cast<float>(i % 777);
    }
    DeviceArray<float> device_x(x), device_y(y);
    saxpy<<<blocks_for(n, 128), 128>>>(static_cast<int>(n), a, device_x.get(), device_y.get(), bias, true);
    LAUNCH_OK();
    std::vector<float> result = device_y.download();
    bool right = true;
    for (size_t i = 0; i < n; ++i)
        right = right && result[i] == -(a * x[i] + y[i] + 0.25f);
    return finish("saxpy", right, n);
}
