// Replaces Proteus's runtime library: prints the requests, and launches the original kernel like the library, with
// the function that the program stored in `__proteus_cudaLaunchKernel_ptr` or, if LAUNCH is defined, with that
// function.
#include <cstdint>
#include <cstdio>

struct Dimensions {
    uint32_t x, y, z;
};

extern "C" {
#ifdef LAUNCH
int LAUNCH(const void *kernel, Dimensions grid, Dimensions block, void **arguments, size_t shared, void *stream);
#else
int (*__proteus_cudaLaunchKernel_ptr)(const void *, Dimensions, Dimensions, void **, size_t, void *) = nullptr;
#define LAUNCH __proteus_cudaLaunchKernel_ptr
#endif

int __proteus_launch_kernel(const void *kernel, Dimensions grid, Dimensions block, void **arguments, uint64_t shared, void *stream) {
    std::puts("Proteus: launch");
    return LAUNCH(kernel, grid, block, arguments, shared, stream);
}
void __proteus_register_fatbinary(void *, void *, const char *) { std::puts("Proteus: register"); }
void __proteus_register_fatbinary_end(void *) {}
void __proteus_register_linked_binary(void *, const char *) {}
void __proteus_register_function(void *, void *, const char *, void **, int32_t) {}
void __proteus_register_var(void *, const void *, const char *, uint64_t) {}

// Requests of a program that registers a kernel's annotated arguments. The real library allocates each.
static char information;
void *__proteus_create_runtime_constant_info_scalar(int32_t, int32_t) { return &information; }
void *__proteus_create_runtime_constant_info_array_const_size(int32_t, int32_t, int32_t, int32_t) { return &information; }
void *__proteus_create_runtime_constant_info_array_runconst_size(int32_t, int32_t, int32_t, int32_t, int32_t) { return &information; }
void *__proteus_create_runtime_constant_info_object(int32_t, int32_t, int32_t, bool) { return &information; }

// A program registers a lambda at its creation, with the captured values.
void __proteus_register_variable(void *, const char *lambda) { std::printf("lambda %s: a variable\n", lambda); }
void __proteus_register_lambda(const char *lambda) { std::printf("lambda %s\n", lambda); }
void __proteus_take_address(const void *) noexcept {}
}
