// Functions of the CUDA driver by name, for programs that are linked to the runtime alone. On the CPU device they are
// global.
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

// The code of this program as its compiler has embedded it: "fat", with its version behind it.
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
            // The program itself comes first, and is all that is looked at.
            return 1;
        },
        &found);
    return found;
}
