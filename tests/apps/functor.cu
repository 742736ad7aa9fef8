// Three ways in which portability layers pass functors to kernels, depending on size: as a kernel parameter, through a
// constant buffer shared by all kernels, and through device memory. The functors contain views with a use count, like
// smart pointers that do not count on the device.
#include "check.cuh"

#include <cstring>

constexpr size_t CONSTANT_BYTES = 8192;
__constant__ unsigned long constant_buffer[CONSTANT_BYTES / sizeof(unsigned long)];

struct Range {
    long begin, end;
};

template <typename FUNCTOR> struct ParallelFor {
    FUNCTOR functor;
    Range range;
    __device__ void operator()() const {
        const long stride = static_cast<long>(blockDim.y) * gridDim.x;
        for (long i = range.begin + static_cast<long>(blockIdx.x) * blockDim.y + threadIdx.y; i < range.end; i += stride)
            functor(i);
    }
};

template <typename DRIVER> __global__ void run_local(const DRIVER driver) { driver(); }

template <typename DRIVER> __global__ __launch_bounds__(256, 2) void run_constant() {
    const DRIVER &driver = *reinterpret_cast<const DRIVER *>(constant_buffer);
    driver();
}

template <typename DRIVER> __global__ void run_global(const DRIVER *driver) { (*driver)(); }

template <typename DRIVER> void launch(const DRIVER &driver, void *scratch) {
    const dim3 grid(blocks_for(driver.range.end - driver.range.begin, 512)), block(1, 256);
    if (sizeof(DRIVER) < 256) {
        run_local<DRIVER><<<grid, block>>>(driver);
    } else if (sizeof(DRIVER) <= CONSTANT_BYTES) {
        CUDA_OK(cudaMemcpyToSymbolAsync(constant_buffer, &driver, sizeof(DRIVER), 0, cudaMemcpyHostToDevice, nullptr));
        run_constant<DRIVER><<<grid, block>>>();
    } else {
        CUDA_OK(cudaMemcpyAsync(scratch, &driver, sizeof(DRIVER), cudaMemcpyHostToDevice, nullptr));
        run_global<DRIVER><<<grid, block>>>(static_cast<const DRIVER *>(scratch));
    }
    LAUNCH_OK();
}

template <typename T> struct View {
    T *data;
    long count;
    __device__ T &operator()(long i) const { return data[i]; }
};

template <int COEFFICIENTS> struct Polynomial {
    View<const long> in;
    View<long> out;
    long coefficients[COEFFICIENTS];
    __device__ void operator()(long i) const {
        long value = 0;
        for (int k = 0; k < COEFFICIENTS; ++k)
            value = value * in(i) + coefficients[k];
        out(i) += value;
    }
};

template <int COEFFICIENTS> bool evaluate(const std::vector<long> &values) {
    long n = static_cast<long>(values.size());
    DeviceArray<long> in(values), out(values.size());
    out.clear();
    ParallelFor<Polynomial<COEFFICIENTS>> driver{{{in.get(), n}, {out.get(), n}, {}}, {0, n}};
    DeviceArray<char> scratch(sizeof driver);
    for (int k = 0; k < COEFFICIENTS; ++k)
        driver.functor.coefficients[k] = k % 7 - 3;
    launch(driver, scratch.get());
    std::vector<long> result = out.download();
    for (long i = 0; i < n; ++i) {
        unsigned long value = 0;
        for (int k = 0; k < COEFFICIENTS; ++k)
            value = value * static_cast<unsigned long>(values[i]) + static_cast<unsigned long>(driver.functor.coefficients[k]);
        if (static_cast<unsigned long>(result[i]) != value)
            return false;
    }
    return true;
}

int main(int argc, char **argv) {
    size_t n = size_argument(argc, argv, 1500);
    std::vector<long> values(n);
    for (size_t i = 0; i < n; ++i)
        values[i] = static_cast<long>(scramble(static_cast<unsigned>(i)) % 5) - 2;
    bool right = evaluate<4>(values);
    right = evaluate<100>(values) && right;
    right = evaluate<1200>(values) && right;
    return finish("functor", right, n);
}
