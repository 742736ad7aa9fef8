// libdevice: single and double functions, with arguments large enough for the slow paths, and the fast intrinsics.
#include "check.cuh"

#include <cmath>

constexpr int SINGLE = 10, DOUBLE = 6;

__global__ void single_math(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = in[i];
    float *row = out + static_cast<size_t>(i) * SINGLE;
    row[0] = sinf(x);
    row[1] = cosf(x * 100000.0f);
    row[2] = expf(-x);
    row[3] = logf(x);
    row[4] = rsqrtf(x);
    row[5] = powf(x, 1.5f);
    row[6] = atan2f(x, 2.0f);
    row[7] = tanhf(x);
    row[8] = fmodf(x, 0.75f);
    row[9] = __expf(x * 0.1f) + sqrtf(x);
}

__global__ void double_math(const float *in, double *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double x = in[i];
    double *row = out + static_cast<size_t>(i) * DOUBLE;
    row[0] = sin(x) + cos(x * 1e6);
    row[1] = exp(-x);
    row[2] = log(x);
    row[3] = pow(x, 0.3);
    row[4] = erf(x);
    row[5] = rsqrt(x) + cbrt(x);
}

static bool close(double got, double expected, double tolerance) {
    return std::fabs(got - expected) <= tolerance * std::fmax(1.0, std::fabs(expected));
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 1000));
    std::vector<float> in(n);
    for (int i = 0; i < n; ++i)
        in[i] = 0.1f + 10.0f * unit_float(i);
    DeviceArray<float> device_in(in), out(static_cast<size_t>(n) * SINGLE);
    DeviceArray<double> double_out(static_cast<size_t>(n) * DOUBLE);
    single_math<<<blocks_for(n, 64), 64>>>(device_in.get(), out.get(), n);
    double_math<<<blocks_for(n, 64), 64>>>(device_in.get(), double_out.get(), n);
    LAUNCH_OK();
    std::vector<float> singles = out.download();
    std::vector<double> doubles = double_out.download();
    bool right = true;
    for (int i = 0; i < n; ++i) {
        double x = in[i];
        // The product is rounded to a float before computing the cosine.
        const double single_expected[SINGLE] = {std::sin(x),       std::cos(static_cast<double>(in[i] * 100000.0f)),
                                                std::exp(-x),      std::log(x),
                                                1 / std::sqrt(x),  std::pow(x, 1.5),
                                                std::atan2(x, 2),  std::tanh(x),
                                                std::fmod(x, 0.75), std::exp(0.1 * x) + std::sqrt(x)};
        const double double_expected[DOUBLE] = {std::sin(x) + std::cos(x * 1e6), std::exp(-x), std::log(x), std::pow(x, 0.3),
                                                std::erf(x), 1 / std::sqrt(x) + std::cbrt(x)};
        for (int k = 0; k < SINGLE; ++k)
            right = right && close(singles[static_cast<size_t>(i) * SINGLE + k], single_expected[k], 1e-5);
        for (int k = 0; k < DOUBLE; ++k)
            right = right && close(doubles[static_cast<size_t>(i) * DOUBLE + k], double_expected[k], 1e-12);
    }
    return finish("math", right, n);
}
