// A stand-in for libcuda.so.1: enough of the driver for one program to allocate, copy and launch, with "kernels" in C.
// Its device memory is host memory, which tests can check and read directly.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef unsigned status;
typedef unsigned long long address;
enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700 };

static status sticky = SUCCESS;
static volatile int busy = 0;
static int counter = 100;
static void *current = (void *)0x10;

static int asked(const char *name) { return getenv(name) != NULL; }

// Events that can interrupt a thread inside a call.
// A timer of this thread.
static void expire(void) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    event._sigev_un._tid = syscall(SYS_gettid);
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &(struct itimerspec){.it_value = {.tv_nsec = 1}}, NULL);
    usleep(20000);
}

static void interrupt(void) {
    const char *how = getenv("FAKE_INTERRUPTION");
    if (!how)
        return;
    if (!strcmp(how, "cancellation"))
        pthread_testcancel();
    else if (!strcmp(how, "signal"))
        raise(SIGUSR1);
    else if (!strcmp(how, "fault"))
        raise(SIGSEGV);
    else if (!strcmp(how, "process-signal"))
        kill(getpid(), SIGUSR1);
    else if (!strcmp(how, "timer"))
        expire();
}

status cuInit(unsigned flags) { return flags ? INVALID_VALUE : SUCCESS; }
status cuCtxGetCurrent(void **context) { *context = current; return SUCCESS; }
status cuCtxSetCurrent(void *context) { return context == current ? SUCCESS : INVALID_VALUE; }
status cuCtxGetDevice(int *device) { *device = 0; return SUCCESS; }
static int for_graphics = 0; // not reported by queries about the stream
static int capturing = 0; // 2: ended by a waiting call
status cuCtxSynchronize(void) {
    if (capturing) {
        capturing = 2;
        return 900;
    }
    while (busy)
        usleep(1000);
    return sticky;
}
status cuDeviceGetName(char *name, int length, int device) { snprintf(name, length, "stand-in %d", device); return SUCCESS; }
status cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 75: *value = 9; break;
    case 102: *value = !asked("FAKE_NO_VMM"); break;
    case 11: *value = 0x7fffffff; break;
    default: *value = 0;
    }
    return SUCCESS;
}

status cuMemAddressReserve(address *out, size_t size, size_t alignment, address hint, unsigned long long flags) {
    void *at = mmap((void *)hint, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return OUT_OF_MEMORY;
    *out = (address)at;
    return SUCCESS;
}
status cuMemGetAllocationGranularity(size_t *out, const void *properties, int option) { *out = 2 << 20; return SUCCESS; }
static size_t used = 0;
status cuMemCreate(size_t *handle, size_t size, const void *properties, unsigned long long flags) {
    if (used + size > (256u << 20))
        return OUT_OF_MEMORY;
    used += size;
    *handle = size;
    return SUCCESS;
}
status cuMemRelease(size_t handle) { used -= handle; return SUCCESS; }
status cuMemMap(address at, size_t size, size_t offset, size_t handle, unsigned long long flags) { return handle == size ? SUCCESS : INVALID_VALUE; }
status cuMemSetAccess(address at, size_t size, const void *descriptors, size_t count) {
    return mprotect((void *)at, size, PROT_READ | PROT_WRITE) ? INVALID_VALUE : SUCCESS;
}
status cuMemUnmap(address at, size_t size) {
    madvise((void *)at, size, MADV_DONTNEED);
    return mprotect((void *)at, size, PROT_NONE) ? INVALID_VALUE : SUCCESS;
}
status cuMemAlloc_v2(address *out, size_t size) {
    if (!out || !size)
        return INVALID_VALUE;
    *out = (address)calloc(1, size);
    return *out ? SUCCESS : OUT_OF_MEMORY;
}
status cuMemFree_v2(address at) {
    if (at % 16)
        return INVALID_VALUE; // not the start of an allocation
    free((void *)at);
    return sticky;
}
status cuMemGetInfo_v2(size_t *left, size_t *total) { *total = 256 << 20; *left = *total - used; return SUCCESS; }
status cuMemGetAddressRange_v2(address *base, size_t *size, address at) { return NOT_FOUND; }
status cuMemHostRegister_v2(void *host, size_t size, unsigned flags) { return asked("FAKE_NO_PINNING") ? OUT_OF_MEMORY : SUCCESS; }
status cuMemHostUnregister(void *host) { return SUCCESS; }
status cuMemHostGetDevicePointer_v2(address *out, void *host, unsigned flags) { *out = (address)host; return SUCCESS; }
// Events are reached when no kernel runs; those in the recorder's stream at once.
struct event { void *stream; };
status cuEventCreate(struct event **event, unsigned flags) { *event = calloc(1, sizeof **event); return SUCCESS; }
status cuEventDestroy_v2(struct event *event) { free(event); return SUCCESS; }
status cuEventRecord(struct event *event, void *stream) { event->stream = stream; return SUCCESS; }
status cuCtxRecordEvent(void *context, struct event *event) { return asked("FAKE_OLD") ? NOT_FOUND : SUCCESS; }
status cuEventQuery(struct event *event) { return busy && event->stream != (void *)0x77 ? NOT_READY : sticky; }
status cuEventElapsedTime(float *milliseconds, struct event *start, struct event *end) { *milliseconds = 0.25f; return SUCCESS; }
status cuMemcpyHtoD_v2(address to, const void *from, size_t size) { memcpy((void *)to, from, size); return sticky; }
status cuMemcpyDtoH_v2(void *to, address from, size_t size) {
    interrupt();
    busy = 0; // the host's wait ends the kernel
    memcpy(to, (void *)from, size);
    return sticky;
}
status cuMemcpyDtoHAsync_v2(void *to, address from, size_t size, void *stream) { memcpy(to, (void *)from, size); return sticky; }

status cuStreamCreate(void **stream, unsigned flags) { *stream = (void *)0x77; return SUCCESS; }
status cuStreamIsCapturing(void *stream, unsigned *answer) {
    *answer = asked("FAKE_CAPTURING") || (capturing && !for_graphics && stream == (void *)0x99) ? 1 : 0;
    return SUCCESS;
}
status cuStreamBeginCapture_v2(void *stream, int mode) { capturing = 1; return SUCCESS; }
status cuStreamEndCapture(void *stream, void **graph) {
    status result = capturing == 2 ? 901 : SUCCESS;
    capturing = 0;
    return result;
}
status cuStreamBeginRecaptureToGraph(void *stream, int mode, void *graph, void *callback, void *data) { capturing = 1; return SUCCESS; }
status cuStreamBeginCaptureToCig(void *stream, void *parameters) { capturing = for_graphics = 1; return SUCCESS; }
status cuStreamEndCaptureToCig(void *stream) {
    for_graphics = 0;
    return cuStreamEndCapture(stream, NULL);
}
// Buffers of another interface: offset and size in bytes.
status cuExternalMemoryGetMappedBuffer(address *out, void *memory, const unsigned long long *description) {
    return cuMemAlloc_v2(out, description[1]);
}
status cuGraphicsResourceGetMappedPointer_v2(address *out, size_t *size, void *resource) {
    static int pixels[2000];
    *out = (address)pixels;
    *size = sizeof pixels;
    return SUCCESS;
}
status cuGraphicsUnmapResources(unsigned count, void **resources, void *stream) { return SUCCESS; }
typedef struct { char bytes[64]; } handle;
// Only memory of cuMemAlloc can be shared, as with the vendor's driver.
status cuIpcGetMemHandle(handle *out, address at) {
    memset(out, 0, sizeof *out);
    return at >= 0x100000000000ull && at < 0x120000000000ull ? INVALID_VALUE : SUCCESS;
}
status cuMemFreeAsync(address at, void *stream) { return cuMemFree_v2(at); }

status cuLibraryLoadData(void **library, const void *image, void *a, void *b, unsigned c, void *d, void *e, unsigned f) {
    *library = (void *)image;
    return SUCCESS;
}
status cuLibraryGetKernel(void **kernel, void *library, const char *name) { *kernel = strdup(name); return SUCCESS; }
status cuLibraryGetGlobal(address *at, size_t *size, void *library, const char *name) {
    if (strcmp(name, "counter"))
        return NOT_FOUND;
    *at = (address)&counter;
    *size = sizeof counter;
    return SUCCESS;
}

status cuLaunchKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream,
                      void **parameters, void **extra) {
    interrupt();
    if (sticky)
        return sticky;
    if (!gx || !gy || !gz || !bx || !by || !bz || bx > 1024)
        return INVALID_VALUE;
    if (!strcmp(kernel, "crash"))
        sticky = ILLEGAL_ADDRESS;
    else if (!strncmp(kernel, "spin", 4))
        busy = 1;
    else {
        int *data = *(int **)parameters[0], count = *(int *)parameters[1];
        for (int i = 0; i < count; ++i)
            data[i] += counter;
        counter += 1;
    }
    return SUCCESS;
}

// A newer driver's variant, with another argument in front.
static status launch_of_the_future(void *options, void *kernel) { return 42; }
// Addresses that dlsym does not return.
static status name_thunk(char *name, int length, int device) { return cuDeviceGetName(name, length, device); }
static status allocation_thunk(address *out, size_t size) { return cuMemAlloc_v2(out, size); }

status cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags, unsigned *found) {
    static const char *const suffixes[] = {"_v2", ""};
    char name[200];
    *function = NULL;
    if (asked("FAKE_FUTURE") && !strcmp(symbol, "cuLaunchKernel"))
        *function = launch_of_the_future;
    if (asked("FAKE_THUNKS") && !strcmp(symbol, "cuDeviceGetName"))
        *function = name_thunk;
    if (asked("FAKE_THUNKS") && !strcmp(symbol, "cuMemAlloc"))
        *function = allocation_thunk;
    for (int i = 0; i < 2 && !*function; ++i) {
        snprintf(name, sizeof name, "%s%s", symbol, suffixes[i]);
        void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        *function = dlsym(self, name);
    }
    return *function ? SUCCESS : NOT_FOUND;
}
