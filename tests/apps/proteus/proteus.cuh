// The code that clang adds with Proteus's plugin: calls of Proteus's library and, for CUDA, an object of its static
// part, which gives the library the program's own launch function.
#pragma once
#include "../check.cuh"

extern "C" {
cudaError_t __proteus_launch_kernel(const void *kernel, dim3 grid, dim3 block, void **arguments, uint64_t shared, void *stream);
void __proteus_register_fatbinary(void *handle, void *wrapper, const char *module);
void __proteus_register_fatbinary_end(void *handle);
void __proteus_register_linked_binary(void *wrapper, const char *module);
void __proteus_register_function(void *handle, void *kernel, const char *name, void **constants, int32_t count);
void __proteus_register_var(void *handle, const void *host, const char *name, uint64_t size);

void *__proteus_create_runtime_constant_info_scalar(int32_t type, int32_t position);
void *__proteus_create_runtime_constant_info_array_const_size(int32_t type, int32_t position, int32_t count, int32_t element);
void *__proteus_create_runtime_constant_info_array_runconst_size(int32_t type, int32_t position, int32_t element, int32_t count_type,
                                                                 int32_t count_position);
void *__proteus_create_runtime_constant_info_object(int32_t type, int32_t position, int32_t size, bool by_value);

// The value is a struct with a destructor, so C++ passes its address.
void __proteus_register_variable(const void *value, const char *lambda);
void __proteus_register_lambda(const char *lambda);
void __proteus_take_address(const void *object) noexcept;

}

// The IR is in a device variable, for AMD's GPUs in a section of it.
#ifdef __HIP__
#define PROTEUS_IR __device__ __attribute__((used, section(".jit.bitcode.tu.5eed.7")))
#else
#define PROTEUS_IR __device__
extern "C" cudaError_t (*__proteus_cudaLaunchKernel_ptr)(const void *, dim3, dim3, void **, size_t, cudaStream_t);
__attribute__((constructor)) static void leave_launch_function() { __proteus_cudaLaunchKernel_ptr = cudaLaunchKernel; }
#endif
