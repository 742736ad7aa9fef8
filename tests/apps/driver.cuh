// CUDA driver functions by name, for programs linked only against the runtime. On the CPU device these functions are
// global symbols.
#pragma once

#include "check.cuh"
#include <cstdint>
#include <cuda.h>
#include <dlfcn.h>
#include <link.h>

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

// The symbol has the name that cuda.h's macros produce: cuMemAlloc means cuMemAlloc_v2.
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

// This program's embedded code: "fat", followed by its version.
[[maybe_unused]] static const void *device_code() {
    const void *found = nullptr;
    dl_iterate_phdr(
        [](dl_phdr_info *info, size_t, void *found) {
            for (int at = 0; at < info->dlpi_phnum; ++at) {
                const auto &header = info->dlpi_phdr[at];
                if (header.p_type != PT_LOAD || (header.p_flags & PF_W))
                    continue;
                auto start = reinterpret_cast<const char *>(info->dlpi_addr + header.p_vaddr);
                for (size_t offset = 0; offset + 8 <= header.p_filesz; offset += 8) {
                    auto words = reinterpret_cast<const uint16_t *>(start + offset);
                    if (words[0] == 0xed50 && words[1] == 0xba55 && words[2] == 1 && words[3] == 16) {
                        *static_cast<const void **>(found) = words;
                        return 1;
                    }
                }
            }
            // The program itself comes first, and no other object matters.
            return 1;
        },
        &found);
    return found;
}
