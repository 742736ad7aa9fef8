// Launches a kernel of the stand-in for HIP in three ways. Arguments: how it finds HIP (linked, dlsym), and "managed" to
// put a variable of the kernel into managed memory, or "cleared" to clear the environment first.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned status;
typedef unsigned long long address;
typedef struct { unsigned x, y, z; } dim3;
typedef struct { size_t width, height, depth; } extent;
typedef struct { void *at; size_t pitch, width, rows; } pitched;

status hipMalloc(address *, size_t);
status hipMalloc3D(pitched *, extent);
status hipStreamBeginCapture(void *, int);
status hipStreamEndCapture(void *, void **);
status hipFree(address);
status hipMemcpy(void *, const void *, size_t, int);
status hipMemGetAddressRange(address *, size_t *, address);
status hipSetDevice(int);
status hipDeviceGetLimit(size_t *, unsigned);
status hipDeviceSynchronize(void);
status hipExtGetLastError(void);
status hipGetLastError(void);
status hipPeekAtLastError(void);
status hipLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
status hipModuleLoadData(void **, const void *);
status hipModuleGetFunction(void **, void *, const char *);
status hipModuleLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
status hipConfigureCall(dim3, dim3, size_t, void *);
status hipSetupArgument(const void *, size_t, size_t);
status hipLaunchByPtr(const void *);
void **__hipRegisterFatBinary(const void *);
void __hipRegisterFunction(void **, const void *, char *, const char *, unsigned, void *, void *, void *, void *, int *);
void __hipRegisterVar(void **, void *, char *, const char *, int, size_t, int, int);
void __hipRegisterManagedVar(void *, void **, void *, const char *, size_t, unsigned);
void __hipUnregisterFatBinary(void **);

#define FUNCTIONS(F) \
    F(hipMalloc) F(hipMalloc3D) F(hipStreamBeginCapture) F(hipStreamEndCapture) F(hipFree) F(hipMemcpy) F(hipMemGetAddressRange) F(hipSetDevice) F(hipDeviceGetLimit) F(hipDeviceSynchronize) F(hipExtGetLastError) F(hipGetLastError) F(hipPeekAtLastError) F(hipLaunchKernel) \
    F(hipModuleLoadData) F(hipModuleGetFunction) F(hipModuleLaunchKernel) F(hipConfigureCall) F(hipSetupArgument) F(hipLaunchByPtr) \
    F(__hipRegisterFatBinary) F(__hipRegisterFunction) F(__hipRegisterVar) F(__hipRegisterManagedVar) F(__hipUnregisterFatBinary)
#define DECLARE(name) static __typeof__(name) *p_##name;
FUNCTIONS(DECLARE)

// The section with the IR, and in the same object an offload bundle without entries and its wrapper.
__asm__(".section .mneme.ir,\"aR\"\n.balign 8\n.incbin \"" IR_FILE "\"\n.previous\n");
static const char bundle[32] = "__CLANG_OFFLOAD_BUNDLE__";
static const struct { unsigned magic, version; const void *binary, *unused; } wrapper = {0x48495046, 1, bundle, NULL};
static int host_of_counter;
static const void *host_of_kernel = &host_of_kernel;

static void bind(const char *door) {
#ifdef LINKED
#define LINK(name) p_##name = name;
    FUNCTIONS(LINK)
#else
#define DLSYM(name) p_##name = dlsym(library, #name);
    void *library = dlopen("./libamdhip64.so.7", RTLD_LAZY | RTLD_LOCAL);
    FUNCTIONS(DLSYM)
#endif
}

int main(int count, char **arguments) {
    if (count > 2 && !strcmp(arguments[2], "cleared"))
        clearenv();
    bind(arguments[1]);
    void **handle = p___hipRegisterFatBinary(&wrapper);
    p___hipRegisterFunction(handle, &host_of_kernel, "_Z3addPii", "_Z3addPii", -1, NULL, NULL, NULL, NULL, NULL);
    if (count > 2 && !strcmp(arguments[2], "managed"))
        p___hipRegisterManagedVar(handle, (void **)&host_of_counter, NULL, "counter", 4, 4);
    else if (count == 2 || !strcmp(arguments[2], "cleared"))
        p___hipRegisterVar(handle, &host_of_counter, "counter", "counter", 0, 4, 0, 0);

    enum { N = 50000 };
    static int host[N];
    address data, base = 0;
    size_t size = 0;
    printf("malloc %u\n", p_hipMalloc(&data, sizeof host));
    printf("range %u", p_hipMemGetAddressRange(&base, &size, data + 8));
    printf(" %#llx+%zu\n", base, size);
    p_hipGetLastError(); // the stand-in does not know its own memory
    p_hipMemcpy((void *)data, host, sizeof host, 1);

    int elements = N;
    void *values[] = {&data, &elements};
    dim3 grid = {10, 1, 1}, block = {64, 1, 1};
    printf("launch %u", p_hipLaunchKernel(&host_of_kernel, grid, block, values, 0, NULL));
    printf(" last %u", p_hipGetLastError());
    block.x = 2000;
    printf(" bad %u", p_hipLaunchKernel(&host_of_kernel, grid, block, values, 0, NULL));
    block.x = 64;
    printf(" peek %u", p_hipPeekAtLastError());
    printf(" last %u", p_hipGetLastError());
    printf(" then %u\n", p_hipGetLastError());

    // Unhooked calls in between: they succeed, fail, and fail in the way of the recorder's own call.
    size_t limit;
    for (int round = 0; round < 12; ++round) {
        int between = round % 6;
        block.x = 1100 + between; // a new shape, which the recorder must try
        if (round < 6)
            p_hipLaunchKernel(&host_of_kernel, grid, block, values, 0, NULL);
        else
            p_hipFree(data + 1);
        if (between == 1)
            p_hipDeviceSynchronize();
        if (between == 2)
            p_hipSetDevice(7);
        if (between == 3)
            p_hipDeviceGetLimit(&limit, 1);
        if (between == 4)
            p_hipFree(0);
        printf("round %d:", round);
        if (between == 5)
            printf(" status %u", p_hipExtGetLastError());
        printf(" peek %u", p_hipPeekAtLastError());
        printf(" status %u", p_hipExtGetLastError());
        printf(" peek %u", p_hipPeekAtLastError());
        printf(" last %u", p_hipGetLastError());
        printf(" status %u", p_hipExtGetLastError());
        printf(" then %u\n", p_hipGetLastError());
        block.x = 64;
    }

    void *module, *function;
    p_hipModuleLoadData(&module, bundle);
    p_hipModuleGetFunction(&function, module, "_Z3addPii");
    struct { address data; int elements; } buffer = {data, 10};
    size_t bytes = sizeof buffer;
    void *extra[] = {(void *)1, &buffer, (void *)2, &bytes, (void *)3};
    printf("module %u\n", p_hipModuleLaunchKernel(function, 2, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));

    elements = 20;
    p_hipConfigureCall(grid, block, 0, NULL);
    p_hipSetupArgument(&data, 8, 0);
    p_hipSetupArgument(&elements, 4, 8);
    printf("configured %u\n", p_hipLaunchByPtr(&host_of_kernel));

    p_hipMemcpy(host, (void *)data, sizeof host, 2);
    printf("result %d %d %d\n", host[0], host[15], host[N - 1]);
    // Only the last mode of a capture allows an allocation.
    for (int mode = 0; mode < 3; ++mode) {
        void *graph;
        address within = 0;
        p_hipStreamBeginCapture((void *)0x77, mode);
        printf("captured %u", p_hipMalloc(&within, 64));
        printf(" last %u %d\n", p_hipGetLastError(), within != 0);
        p_hipStreamEndCapture((void *)0x77, &graph);
    }
    pitched volume;
    extent of = {100, 3, 2};
    printf("volume %u", p_hipMalloc3D(&volume, of));
    printf(" %zu\n", volume.pitch);
    printf("free %u\n", p_hipFree(data));
    p___hipUnregisterFatBinary(handle);
    return 4;
}
