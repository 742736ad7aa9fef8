// A stand-in for libamdhip64.so: enough of HIP for one program to allocate, copy and launch, with "kernels" in C. Its
// device memory is host memory. As in HIP, every call sets the thread's last error (until 6, even successful ones).
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef unsigned status;
typedef unsigned long long address;
typedef struct { unsigned x, y, z; } dim3;
typedef struct { size_t width, height, depth; } extent;
typedef struct { void *at; size_t pitch, width, rows; } pitched;
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_FUNCTION = 98, INVALID_DEVICE = 101, UNSUPPORTED_LIMIT = 215, NOT_FOUND = 500, CAPTURE_UNSUPPORTED = 900 };

static __thread status last_error = SUCCESS, last_status = SUCCESS;
static int asked(const char *name) { return getenv(name) != NULL; }
static int is_sticky(void) { return asked("FAKE_HIP_7"); }
static status done(status result) {
    if (result || !is_sticky())
        last_error = result;
    return last_status = result;
}
status hipGetLastError(void) {
    status result = last_error;
    last_error = SUCCESS;
    return result;
}
status hipPeekAtLastError(void) { return done(last_error); }
status hipExtGetLastError(void) {
    if (!is_sticky())
        return hipGetLastError();
    status result = last_status;
    last_status = SUCCESS;
    return result;
}
status hipRuntimeGetVersion(int *version) { *version = is_sticky() ? 70000000 : 60443484; return done(SUCCESS); }

status hipInit(unsigned flags) { return done(flags ? INVALID_VALUE : SUCCESS); }
status hipGetDevice(int *device) { *device = 0; return done(SUCCESS); }
status hipSetDevice(int device) { return done(device ? INVALID_DEVICE : SUCCESS); }
// The limit of printf's buffer is never supported.
status hipDeviceGetLimit(size_t *value, unsigned limit) {
    *value = 1024;
    return done(limit == 1 ? UNSUPPORTED_LIMIT : SUCCESS);
}
status hipDeviceSynchronize(void) { return done(SUCCESS); }
status hipDeviceGetName(char *name, int length, int device) { snprintf(name, length, "stand-in %d", device); return done(SUCCESS); }
status hipDeviceGetStreamPriorityRange(int *least, int *greatest) { *least = *greatest = 0; return done(SUCCESS); }
status hipDeviceGetAttribute(int *value, unsigned attribute, int device) {
    switch (attribute) {
    case 89: *value = !asked("FAKE_NO_VMM"); break;
    case 58: *value = 0x7fffffff; break;
    default: *value = 0;
    }
    return done(SUCCESS);
}
status hipGetDevicePropertiesR0600(char *properties, int device) {
    memset(properties, 0, 1472);
    strcpy(properties + 1160, "gfx90a:sramecc+:xnack-");
    return done(SUCCESS);
}

status hipMemAddressReserve(address *out, size_t size, size_t alignment, address hint, unsigned long long flags) {
    void *at = mmap((void *)hint, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *out = (address)at;
    return done(at == MAP_FAILED ? OUT_OF_MEMORY : SUCCESS);
}
status hipMemGetAllocationGranularity(size_t *out, const void *properties, int option) { *out = 2 << 20; return done(SUCCESS); }
status hipMemCreate(size_t *handle, size_t size, const void *properties, unsigned long long flags) { *handle = size; return done(SUCCESS); }
status hipMemRelease(size_t handle) { return done(SUCCESS); }
status hipMemMap(address at, size_t size, size_t offset, size_t handle, unsigned long long flags) { return done(handle == size ? SUCCESS : INVALID_VALUE); }
status hipMemSetAccess(address at, size_t size, const void *descriptors, size_t count) {
    return done(mprotect((void *)at, size, PROT_READ | PROT_WRITE) ? INVALID_VALUE : SUCCESS);
}
status hipMemUnmap(address at, size_t size) {
    madvise((void *)at, size, MADV_DONTNEED);
    return done(mprotect((void *)at, size, PROT_NONE) ? INVALID_VALUE : SUCCESS);
}
static int captures = 0, is_relaxed;
status hipStreamBeginCapture(void *stream, int mode) { captures = 1; is_relaxed = mode == 2; return done(SUCCESS); }
status hipStreamEndCapture(void *stream, void **graph) { captures = 0; *graph = stream; return done(SUCCESS); }
status hipMalloc(address *out, size_t size) {
    if (!out || !size)
        return done(INVALID_VALUE);
    if (captures && !is_relaxed)
        return done(CAPTURE_UNSUPPORTED);
    *out = (address)calloc(1, size);
    return done(SUCCESS);
}
status hipMalloc3D(pitched *out, extent of) {
    *out = (pitched){calloc(of.width * of.height, of.depth), of.width, of.width, of.height};
    return done(SUCCESS);
}
status hipFree(address at) {
    if (at % 16)
        return done(INVALID_VALUE);
    free((void *)at);
    return done(SUCCESS);
}
status hipMemcpy(void *to, const void *from, size_t size, int kind) { memcpy(to, from, size); return done(SUCCESS); }
status hipMemcpyDtoHAsync(void *to, address from, size_t size, void *stream) { memcpy(to, (void *)from, size); return done(SUCCESS); }
// Unknown addresses, which it has not allocated, are errors.
status hipMemGetAddressRange(address *base, size_t *size, address at) { return done(INVALID_VALUE); }

status hipStreamCreateWithFlags(void **stream, unsigned flags) { *stream = (void *)0x77; return done(SUCCESS); }
// Until 7, the name of the default stream is not a valid stream.
static status known(void *stream) { return done(stream == (void *)1 ? 400 : SUCCESS); }
status hipStreamSynchronize(void *stream) { return known(stream); }
status hipStreamIsCapturing(void *stream, unsigned *answer) { *answer = 0; return known(stream); }
status hipEventCreateWithFlags(void **event, unsigned flags) { *event = (void *)0x55; return done(SUCCESS); }
status hipEventDestroy(void *event) { return done(SUCCESS); }
status hipEventRecord(void *event, void *stream) { return known(stream); }
status hipEventSynchronize(void *event) { return done(SUCCESS); }
status hipEventQuery(void *event) { return done(SUCCESS); }
status hipEventElapsedTime(float *milliseconds, void *start, void *end) { *milliseconds = 0.25f; return done(SUCCESS); }

// Registered code: kernels and variables by the addresses on the host.
static int counter = 100;
static struct { const void *host; const char *name; } kernels[8];
static int kernel_count = 0;
static const void *registered_counter;
void **__hipRegisterFatBinary(const void *wrapper) {
    static void *handle;
    return *(const unsigned *)wrapper == 0x48495046 ? &handle : NULL;
}
void __hipRegisterFunction(void **handle, const void *host, char *host_name, const char *name, unsigned threads, void *a, void *b, void *c, void *d, int *e) {
    kernels[kernel_count].host = host;
    kernels[kernel_count++].name = name;
}
void __hipRegisterVar(void **handle, void *host, char *host_name, const char *name, int external, size_t size, int constant, int global) {
    registered_counter = host;
}
void __hipRegisterManagedVar(void *handle, void **pointer, void *initial, const char *name, size_t size, unsigned alignment) { *pointer = initial; }
void __hipUnregisterFatBinary(void **handle) {}
status hipGetSymbolAddress(void **at, const void *symbol) {
    *at = &counter;
    return done(symbol == registered_counter ? SUCCESS : INVALID_VALUE);
}
status hipGetSymbolSize(size_t *size, const void *symbol) { *size = sizeof counter; return done(SUCCESS); }

static status run(const char *name, dim3 grid, dim3 block, int *data, int count) {
    if (!name)
        return done(INVALID_FUNCTION);
    if (!grid.x || !block.x || block.x > 1024)
        return done(INVALID_VALUE);
    for (int i = 0; i < count; ++i)
        data[i] += counter;
    counter += 1;
    return done(SUCCESS);
}
static const char *name_of(const void *host) {
    for (int i = 0; i < kernel_count; ++i)
        if (kernels[i].host == host)
            return kernels[i].name;
    return NULL;
}
status hipLaunchKernel(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream) {
    return run(name_of(host), grid, block, *(int **)arguments[0], *(int *)arguments[1]);
}
status hipModuleLoadData(void **module, const void *image) { *module = (void *)image; return done(SUCCESS); }
status hipModuleGetFunction(void **function, void *module, const char *name) { *function = strdup(name); return done(SUCCESS); }
status hipModuleGetGlobal(address *at, size_t *size, void *module, const char *name) {
    *at = (address)&counter;
    *size = sizeof counter;
    return done(strcmp(name, "counter") ? NOT_FOUND : SUCCESS);
}
// Arguments in a buffer; the list ends with 3.
status hipModuleLaunchKernel(const char *name, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream,
                             void **parameters, void **extra) {
    if (parameters || extra[4] != (void *)3)
        return done(INVALID_VALUE);
    const char *buffer = extra[1];
    return run(name, (dim3){gx, gy, gz}, (dim3){bx, by, bz}, *(int **)buffer, *(int *)(buffer + 8));
}
static struct { dim3 grid, block; char bytes[64]; } configured;
status hipConfigureCall(dim3 grid, dim3 block, size_t shared, void *stream) { configured.grid = grid; configured.block = block; return done(SUCCESS); }
status hipSetupArgument(const void *bytes, size_t size, size_t offset) { memcpy(configured.bytes + offset, bytes, size); return done(SUCCESS); }
status hipLaunchByPtr(const void *host) {
    return run(name_of(host), configured.grid, configured.block, *(int **)configured.bytes, *(int *)(configured.bytes + 8));
}
