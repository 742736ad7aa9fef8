// Another tool before the driver: it wraps cuGetProcAddress and returns its own launch functions, which count. With
// TOOL_ASKS it calls the functions that dlsym finds, like a tool that does not expect others; otherwise those that it received.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned status;
typedef void *find(void *, const char *);
static status (*get)(const char *, void **, int, unsigned long long, unsigned *);
static status (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static unsigned launches;

static find *next_dlsym(void) {
    static find *next;
    if (!next)
        next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!next)
        next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return next;
}

static status counted_launch(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream,
                             void **parameters, void **extra) {
    ++launches;
    return launch(kernel, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);
}

static status own_get(const char *symbol, void **function, int version, unsigned long long flags, unsigned *found) {
    status result = get(symbol, function, version, flags, found);
    if (!result && !strcmp(symbol, "cuLaunchKernel")) {
        launch = getenv("TOOL_ASKS") ? dlsym(dlopen("libcuda.so.1", RTLD_LAZY), symbol) : *function;
        *function = counted_launch;
    }
    return result;
}

// Passes calls on by jumps, so RTLD_NEXT starts from the caller.
void *dlsym(void *handle, const char *name) {
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || strcmp(name, "cuGetProcAddress_v2"))
        return next_dlsym()(handle, name);
    get = next_dlsym()(handle, name);
    return own_get;
}

__attribute__((destructor)) static void report(void) { dprintf(STDOUT_FILENO, "the tool saw %u launches\n", launches); }
