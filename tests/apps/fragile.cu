// Kernels whose recorded input is special.
#include "check.cuh"

// It terminates only for numbers near 1, like an iteration that runs until convergence. It rounds them in place, so the
// second launch changes nothing, and neither does a launch on permuted numbers.
__global__ void rounding(float *values, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    volatile float *value = values + i;
    while (fabsf(*value - 1.0f) > 0.25f)
        ;
    values[i] = __uint_as_float(__float_as_uint(values[i]) & ~15u);
}

// On small integers it doesn't matter whether the product is rounded before the sum.
__global__ void square(float *out, const float *in, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i] * in[i] + in[i];
}

// It traps on all other numbers.
__global__ void picky(float *out, const float *in, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    if (fabsf(in[i] - 1.0f) > 0.25f || (i > 0 && in[i - 1] > in[i] + 1e-3f && i % 1000 != 0))
        __trap();
    out[i] = 2.0f * in[i];
}

int main(int argc, char **argv) {
    size_t n = size_argument(argc, argv, 4096);
    std::vector<float> numbers(n);
    for (size_t i = 0; i < n; ++i)
        numbers[i] = 1.0f + float(i % 1000) * 1.3e-4f;
    DeviceArray<float> values(numbers);
    for (int step = 0; step < 2; ++step)
        rounding<<<blocks_for(n, 128), 128>>>(values.get(), n);
    std::vector<float> integers(n);
    for (size_t i = 0; i < n; ++i)
        integers[i] = float(1 + i % 1000);
    DeviceArray<float> in(integers), out(n);
    for (int step = 0; step < 2; ++step)
        square<<<blocks_for(n, 128), 128>>>(out.get(), in.get(), n);
    DeviceArray<float> near(numbers), doubled(n);
    for (int step = 0; step < 2; ++step)
        picky<<<blocks_for(n, 128), 128>>>(doubled.get(), near.get(), n);
    LAUNCH_OK();
    auto rounded = values.download(), squares = out.download();
    bool right = true;
    for (size_t i = 0; i < n; ++i)
        right = right && fabsf(rounded[i] - numbers[i]) < 1e-5f && squares[i] == integers[i] * (integers[i] + 1);
    return finish("fragile", right, n);
}
