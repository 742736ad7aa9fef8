// Functions of the CUDA driver by name, for programs that are linked to the runtime alone. On the CPU device they are
// global.
#pragma once

#include "check.cuh"
#include <cuda.h>
#include <dlfcn.h>

template <typename Function> Function *driver_function(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found) {
        static void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
        found = library ? dlsym(library, name) : nullptr;
    }
    if (!found) {
        std::fprintf(stderr, "the driver has no %s\n", name);
        std::exit(2);
    }
    return reinterpret_cast<Function *>(found);
}

// The symbol's name is the one after the macros of cuda.h: cuMemAlloc means cuMemAlloc_v2.
#define DRIVER_NAME_(name) #name
#define DRIVER_NAME(name) DRIVER_NAME_(name)
#define DRIVER(name) driver_function<decltype(name)>(DRIVER_NAME(name))
#define DRIVER_OK(name, ...)                                                                                           \
    do {                                                                                                               \
        CUresult status_ = DRIVER(name)(__VA_ARGS__);                                                                  \
        if (status_ != CUDA_SUCCESS) {                                                                                 \
            std::fprintf(stderr, "%s:%d: %s: CUDA error %d\n", __FILE__, __LINE__, #name, static_cast<int>(status_));   \
            std::exit(2);                                                                                              \
        }                                                                                                              \
    } while (0)
