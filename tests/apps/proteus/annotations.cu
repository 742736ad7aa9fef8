// A kernel for each annotation of Proteus, in the form that clang's plugin produces: device code lacks `jit_arg`,
// `jit_array` and `jit_object`, and `shared_array` is a function with an array of the maximum size. The host registers
// annotated values with Proteus before each launch. JIT_BITCODE as in main.cu.
#include "proteus.cuh"

#include <numeric>

// Proteus's numbers for types.
enum : int32_t { INT32 = 3, INT64 = 4, DOUBLE = 6, ARRAY = 11, OBJECT = 12 };

// jit_arg(a), jit_arg(n)
__global__ void scale(double *y, double a, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n)
        y[i] *= a;
}

// jit_array(coefficients, 3)
__global__ void polynomial(double *y, const double *coefficients, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n)
        y[i] = coefficients[0] + y[i] * (coefficients[1] + y[i] * coefficients[2]);
}

// jit_array(weights, count) with jit_arg(count)
__global__ void weigh(double *y, const double *weights, size_t count, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n)
        y[i] *= weights[i % count];
}

struct Box {
    double low, high;
};

// jit_object(box)
__global__ void clamp(double *y, Box box, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n)
        y[i] = fmin(fmax(y[i], box.low), box.high);
}

namespace proteus {
template <typename T, size_t Most> static __device__ __attribute__((noinline)) T *shared_array(size_t, size_t = sizeof(T)) {
    alignas(T) static __shared__ char memory[sizeof(T) * Most];
    return reinterpret_cast<T *>(memory);
}
} // namespace proteus

// A block's sums, in an array of the block's size.
__global__ void sum(const double *y, double *sums, size_t n) {
    double *values = proteus::shared_array<double, 256>(blockDim.x);
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    values[threadIdx.x] = i < n ? y[i] : 0;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            values[threadIdx.x] += values[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        sums[blockIdx.x] = values[0];
}

// A lambda with jit_variables as captures, which is passed to register_lambda.
template <typename Body> __global__ void each(Body body, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n)
        body(i);
}

#ifdef JIT_BITCODE
extern "C" PROTEUS_IR const unsigned char _jit_bitcode_tu_5eed[] = {
#include JIT_BITCODE
};
#endif

static void *scalar(int32_t type, int32_t position) { return __proteus_create_runtime_constant_info_scalar(type, position); }

template <typename Kernel> void add(Kernel *kernel, const char *name, std::vector<void *> constants) {
    __proteus_register_function(nullptr, reinterpret_cast<void *>(kernel), name, constants.data(), int32_t(constants.size()));
}

template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), size_t n, Arguments... arguments) {
    void *pointers[] = {&arguments...};
    CUDA_OK(__proteus_launch_kernel(reinterpret_cast<void *>(kernel), dim3(blocks_for(n, 128)), dim3(128), pointers, 0, nullptr));
}

int main(int argc, char **argv) {
    size_t n = size_argument(argc, argv, 1000);
    char unit[] = "annotations.cu";
    __proteus_register_linked_binary(nullptr, unit);
    __proteus_register_fatbinary(nullptr, nullptr, unit);
    add(scale, "scale", {scalar(DOUBLE, 1), scalar(INT64, 2)});
    add(polynomial, "polynomial", {__proteus_create_runtime_constant_info_array_const_size(ARRAY, 1, 3, DOUBLE)});
    add(weigh, "weigh", {__proteus_create_runtime_constant_info_array_runconst_size(ARRAY, 1, DOUBLE, INT64, 2), scalar(INT64, 2)});
    add(clamp, "clamp", {__proteus_create_runtime_constant_info_object(OBJECT, 1, sizeof(Box), true)});
    add(sum, "sum", {});
    __proteus_register_fatbinary_end(nullptr);

    std::vector<double> y(n);
    std::iota(y.begin(), y.end(), 0);
    DeviceArray<double> dy(y), sums(std::vector<double>(blocks_for(n, 128)));
    // Proteus reads annotated arrays on the host.
    double *coefficients, *weights;
    size_t count = 2;
    CUDA_OK(cudaMallocManaged(&coefficients, 3 * sizeof(double)));
    CUDA_OK(cudaMallocManaged(&weights, count * sizeof(double)));
    coefficients[0] = 1, coefficients[1] = 2, coefficients[2] = 3;
    weights[0] = 1, weights[1] = -1;
    Box box = {-500, 500};
    launch(scale, n, dy.get(), 0.5, n);
    launch(polynomial, n, dy.get(), static_cast<const double *>(coefficients), n);
    launch(weigh, n, dy.get(), static_cast<const double *>(weights), count, n);
    launch(clamp, n, dy.get(), box, n);
    launch(sum, n, static_cast<const double *>(dy.get()), sums.get(), n);

    double offset = 7, *out = dy.get();
    __proteus_register_variable(&offset, "main::'lambda'(unsigned long)");
    auto shift = [=] __device__(size_t i) { out[i] += offset; };
    __proteus_register_lambda("main::'lambda'(unsigned long)");
    __proteus_take_address(&shift);
    add(each<decltype(shift)>, "each", {});
    launch(each<decltype(shift)>, n, shift, n);
    LAUNCH_OK();

    std::vector<double> found = dy.download(), found_sums = sums.download(), expected_sums(found_sums.size());
    bool right = true;
    for (size_t i = 0; i < n; ++i) {
        double x = 0.5 * i, value = std::min(std::max((1 + x * (2 + x * 3)) * (i % 2 ? -1 : 1), box.low), box.high);
        expected_sums[i / 128] += value;
        right = right && found[i] == value + offset;
    }
    for (size_t i = 0; i < expected_sums.size(); ++i)
        right = right && found_sums[i] == expected_sums[i];
    CUDA_OK(cudaFree(coefficients));
    CUDA_OK(cudaFree(weights));
    return finish("annotations", right, n);
}
