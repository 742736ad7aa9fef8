// The host side of a program built with clang and Proteus's plugin, on a machine without HIP and CUDA: this program
// defines the vendor's launch function, which prints its arguments. It is `hipLaunchKernel` or, if LEFT is defined, an
// unnamed function, as in a program with the static CUDA runtime, passed to Proteus's library.
#include <cstdint>
#include <cstdio>

struct Dimensions {
    uint32_t x, y, z;
};

#ifdef LEFT
#define LAUNCH static int launch
#else
#define LAUNCH extern "C" int hipLaunchKernel
#endif

extern "C" {
extern int (*__proteus_cudaLaunchKernel_ptr)(const void *, Dimensions, Dimensions, void **, size_t, void *);
int __proteus_launch_kernel(const void *kernel, Dimensions grid, Dimensions block, void **arguments, uint64_t shared, void *stream);
void __proteus_register_fatbinary(void *handle, void *wrapper, const char *module);
void __proteus_register_fatbinary_end(void *handle);
void __proteus_register_linked_binary(void *wrapper, const char *module);
void __proteus_register_function(void *handle, void *kernel, const char *name, void **constants, int32_t count);
void __proteus_register_var(void *handle, const void *host, const char *name, uint64_t size);
}

static int kernel;

LAUNCH(const void *function, Dimensions grid, Dimensions block, void **arguments, size_t shared, void *stream) {
    std::printf("%s, grid %u %u %u, block %u %u %u, argument %d, %zu bytes, stream %zu\n", function == &kernel ? "the kernel" : "?",
                grid.x, grid.y, grid.z, block.x, block.y, block.z, *static_cast<int *>(arguments[0]), shared,
                reinterpret_cast<size_t>(stream));
    return 7;
}

int main() {
#ifdef LEFT
    __proteus_cudaLaunchKernel_ptr = launch;
#endif
    char unit[] = "launch.cpp";
    __proteus_register_linked_binary(nullptr, unit);
    __proteus_register_fatbinary(nullptr, nullptr, unit);
    __proteus_register_function(nullptr, &kernel, "kernel", nullptr, 0);
    __proteus_register_var(nullptr, &kernel, "variable", sizeof kernel);
    __proteus_register_fatbinary_end(nullptr);
    int argument = 42;
    void *arguments[] = {&argument};
    int status = __proteus_launch_kernel(&kernel, {1, 2, 3}, {4, 5, 6}, arguments, 78, reinterpret_cast<void *>(9));
    std::printf("status %d\n", status);
    return 0;
}
