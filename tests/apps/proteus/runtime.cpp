// In place of Proteus's runtime library: says what it was asked for, and launches the original kernel as the library
// does, by the function that the program has left in `__proteus_cudaLaunchKernel_ptr` or, where LAUNCH is defined, by
// that one.
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

// What a program asks for while it registers a kernel's annotated arguments. A real one is allocated for each.
static char information;
void *__proteus_create_runtime_constant_info_scalar(int32_t, int32_t) { return &information; }
void *__proteus_create_runtime_constant_info_array_const_size(int32_t, int32_t, int32_t, int32_t) { return &information; }
void *__proteus_create_runtime_constant_info_array_runconst_size(int32_t, int32_t, int32_t, int32_t, int32_t) { return &information; }
void *__proteus_create_runtime_constant_info_object(int32_t, int32_t, int32_t, bool) { return &information; }

// Lambdas are registered where they are made, with the values that they have captured.
void __proteus_register_variable(void *, const char *lambda) { std::printf("lambda %s: a variable\n", lambda); }
void __proteus_register_lambda(const char *lambda) { std::printf("lambda %s\n", lambda); }
void __proteus_take_address(const void *) noexcept {}
}
