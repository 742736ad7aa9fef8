// A program in the form that clang with Proteus's plugin produces: it launches with `__proteus_launch_kernel`,
// registers its code with Proteus, and stores the translation unit's LLVM IR in a device variable. JIT_BITCODE is a
// file with that IR's bytes as an initialiser.
#include "proteus.cuh"
#ifdef JIT_BITCODE
#include "../driver.cuh"
#endif

__device__ int calls = 0;

__global__ void daxpy(double a, const double *x, double *y, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
    if (i == 0)
        atomicAdd(&calls, 1);
}

#ifdef JIT_BITCODE
extern "C" PROTEUS_IR const unsigned char _jit_bitcode_tu_5eed[] = {
#include JIT_BITCODE
};
#endif

int main(int argc, char **argv) {
    size_t n = size_argument(argc, argv, 5000);
    void *kernel = reinterpret_cast<void *>(&daxpy);
    char unit[] = "main.cu";
    __proteus_register_linked_binary(nullptr, unit);
    __proteus_register_fatbinary(nullptr, nullptr, unit);
    __proteus_register_function(nullptr, kernel, "daxpy", nullptr, 0);
    __proteus_register_var(nullptr, &calls, "calls", sizeof calls);
    __proteus_register_fatbinary_end(nullptr);

    std::vector<double> x(n), y(n);
    for (size_t i = 0; i < n; ++i)
        x[i] = i, y[i] = 1;
    DeviceArray<double> dx(x), dy(y);
    double a = 2;
    const double *px = dx.get();
    double *py = dy.get();
    void *arguments[] = {&a, &px, &py, &n};
    for (int step = 0; step < 2; ++step)
        CUDA_OK(__proteus_launch_kernel(kernel, dim3(blocks_for(n, 128)), dim3(128), arguments, 0, nullptr));
    LAUNCH_OK();
    y = dy.download();
    bool right = true;
    for (size_t i = 0; i < n; ++i)
        right = right && y[i] == 1 + 4.0 * i;
#ifdef JIT_BITCODE
    // Proteus loads the program's machine code again to read its IR.
    CUmodule module;
    CUdeviceptr place;
    size_t bytes;
    DRIVER_OK(cuModuleLoadData, &module, device_code());
    DRIVER_OK(cuModuleGetGlobal, &place, &bytes, module, "_jit_bitcode_tu_5eed");
    std::vector<unsigned char> ir(bytes);
    DRIVER_OK(cuMemcpyDtoH, ir.data(), place, bytes);
    right = right && ir.size() == sizeof _jit_bitcode_tu_5eed && ir[0] == 'B' && ir[1] == 'C';
    DRIVER_OK(cuModuleUnload, module);
#endif
    return finish("proteus", right, n);
}
