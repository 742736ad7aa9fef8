/* Runs one recorded launch of a GPU kernel on its recorded memory, compares the memory after it with the recording, and
 * prints the time.
 *
 *     make && ./kernel [RUNS]
 *
 * It needs only a C compiler and NVIDIA's driver (libcuda.so.1). launch.h describes the launch and the memory, and
 * memory.bin has the memory's contents.
 *
 * Exit status: 0 all memory is as recorded, 1 it differs, 2 the launch could not be run. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef unsigned long long address;

/* A region of device memory: an allocation, or a variable of the code. */
struct region {
    address at;
    size_t bytes;
    const char *variable;
    enum { ALLOCATION, VARIABLE, CONSTANT, TABLE } kind;
};

/* Bytes of a region in memory.bin. All other bytes are zero before the launch, and unchanged after it. */
struct piece {
    size_t region, offset, bytes, file;
};

#include "launch.h"

/* The parts of the driver's interface that this program uses. */
struct location {
    int kind, device;
};
struct properties {
    int kind, handles;
    struct location location;
    void *windows;
    unsigned char flags[8];
};
struct access {
    struct location location;
    int flags;
};
struct attribute {
    int id, padding;
    union {
        char bytes[64];
        unsigned cluster[3];
        int cooperative;
    } value;
};
struct configuration {
    unsigned grid[3], block[3], shared;
    void *stream;
    struct attribute *attributes;
    unsigned count;
};
enum { CLUSTER = 4, COOPERATIVE = 2, MAX_DYNAMIC_SHARED = 8, READ_WRITE = 3, PINNED = 1, ON_DEVICE = 1 };
enum { NOT_FOUND = 500 };
/* The byte around the regions, which launches must not change. */
enum { PATTERN = 0xa5 };

#define FUNCTIONS(F)                                                                                                   \
    F(cuInit, (unsigned))                                                                                              \
    F(cuDevicePrimaryCtxRetain, (void **, int))                                                                        \
    F(cuCtxSetCurrent, (void *))                                                                                       \
    F(cuCtxSetLimit, (int, size_t))                                                                                    \
    F(cuCtxSynchronize, (void))                                                                                        \
    F(cuModuleLoadData, (void **, const void *))                                                                       \
    F(cuModuleGetFunction, (void **, void *, const char *))                                                            \
    F(cuModuleGetGlobal_v2, (address *, size_t *, void *, const char *))                                               \
    F(cuFuncSetAttribute, (void *, int, int))                                                                          \
    F(cuMemGetAllocationGranularity, (size_t *, const struct properties *, int))                                       \
    F(cuMemAddressReserve, (address *, size_t, size_t, address, unsigned long long))                                   \
    F(cuMemCreate, (unsigned long long *, size_t, const struct properties *, unsigned long long))                      \
    F(cuMemMap, (address, size_t, size_t, unsigned long long, unsigned long long))                                     \
    F(cuMemSetAccess, (address, size_t, const struct access *, size_t))                                                \
    F(cuMemcpyHtoD_v2, (address, const void *, size_t))                                                                \
    F(cuMemcpyDtoH_v2, (void *, address, size_t))                                                                      \
    F(cuMemcpyDtoD_v2, (address, address, size_t))                                                                     \
    F(cuMemsetD8_v2, (address, unsigned char, size_t))                                                                 \
    F(cuEventCreate, (void **, unsigned))                                                                              \
    F(cuEventRecord, (void *, void *))                                                                                 \
    F(cuEventElapsedTime, (float *, void *, void *))                                                                   \
    F(cuLaunchKernelEx, (const struct configuration *, void *, void **, void **))                                      \
    F(cuLaunchKernel,                                                                                                  \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))

#define DECLARE(name, arguments) static int(*name) arguments;
FUNCTIONS(DECLARE)
static int (*cuGetErrorName)(int, const char **);

static void fail(const char *what, const char *why) {
    fprintf(stderr, "kernel: %s: %s\n", what, why);
    exit(2);
}

static void check(int status, const char *call) {
    const char *name = "an error without a name";
    if (!status)
        return;
    cuGetErrorName(status, &name);
    fail(call, name);
}
#define CHECK(function, ...) check(function(__VA_ARGS__), #function)

static void find_functions(void) {
    /* A preloaded driver has priority. */
    void *driver = dlsym(RTLD_DEFAULT, "cuInit") ? RTLD_DEFAULT : dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver && !dlsym(RTLD_DEFAULT, "cuInit"))
        fail("NVIDIA's driver cannot be loaded", dlerror());
#define FIND(name, arguments)                                                                                          \
    if (!(*(void **)&name = dlsym(driver, #name)))                                                                     \
        fail("the driver is too old", "it lacks " #name);
    FUNCTIONS(FIND)
    FIND(cuGetErrorName, )
}

static const unsigned char *mapped(const char *file, size_t *bytes) {
    struct stat status;
    int descriptor = open(file, O_RDONLY);
    void *start = "";
    if (descriptor < 0 || fstat(descriptor, &status))
        fail(file, "cannot be opened");
    *bytes = (size_t)status.st_size;
    if (*bytes && (start = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, descriptor, 0)) == MAP_FAILED)
        fail(file, "cannot be mapped");
    close(descriptor);
    return start;
}

/* The device address of each region: the recorded one, except for variables, which the driver places anew. */
static address places[REGION_COUNT + 1];
static const unsigned char *contents;
enum { WINDOW = 16 << 20 };

/* Writes a part of a region to `out`, as recorded before or after the launch. */
static void expect(size_t region, size_t offset, size_t bytes, int after, unsigned char *out) {
    int moment;
    memset(out, 0, bytes);
    for (moment = 0; moment <= after; ++moment) {
        const struct piece *pieces = moment ? AFTER : BEFORE;
        size_t count = moment ? AFTER_COUNT : BEFORE_COUNT, i;
        for (i = 0; i < count; ++i) {
            const struct piece *piece = &pieces[i];
            size_t start = piece->offset > offset ? piece->offset : offset;
            size_t end = piece->offset + piece->bytes < offset + bytes ? piece->offset + piece->bytes : offset + bytes;
            if (piece->region == region && start < end)
                memcpy(out + (start - offset), contents + piece->file + (start - piece->offset), end - start);
        }
    }
}

/* Mapped memory outside of all regions. */
static struct gap {
    address at;
    size_t bytes;
} gaps[2 * REGION_COUNT + 1];
static size_t gap_count;

static void add_gap(address from, address to) {
    if (from < to) {
        gaps[gap_count].at = from;
        gaps[gap_count++].bytes = to - from;
    }
}

/* The pages of all memory with a fixed address. Regions are sorted by address. */
static void map_memory(void) {
    struct properties properties = {PINNED, 0, {ON_DEVICE, 0}, NULL, {0}};
    struct access access = {{ON_DEVICE, 0}, READ_WRITE};
    const address unit = 32 << 20; /* The driver only honours multiples of this address. */
    address reserved = 0, end_of_pages = 0, covered = 0;
    size_t page, i;
    CHECK(cuMemGetAllocationGranularity, &page, &properties, 0);
    for (i = 0; i < REGION_COUNT; ++i) {
        const struct region *region = &REGIONS[i];
        address start = region->at / page * page, end = (region->at + region->bytes + page - 1) / page * page;
        unsigned long long handle;
        places[i] = region->at;
        if (region->kind == VARIABLE || region->kind == CONSTANT)
            continue;
        address from = start / unit * unit, to = (end + unit - 1) / unit * unit, got;
        from = from < reserved ? reserved : from;
        if (from < to) {
            CHECK(cuMemAddressReserve, &got, to - from, 0, from, 0);
            if (got != from)
                fail("the recorded addresses are taken", "other memory of this process or GPU is there");
            reserved = to;
        }
        if (start >= end_of_pages) {
            add_gap(covered, end_of_pages);
            covered = start;
        }
        add_gap(covered, region->at);
        covered = covered < region->at + region->bytes ? region->at + region->bytes : covered;
        start = start < end_of_pages ? end_of_pages : start;
        if (start < end) {
            CHECK(cuMemCreate, &handle, end - start, &properties, 0);
            CHECK(cuMemMap, start, end - start, 0, handle, 0);
            CHECK(cuMemSetAccess, start, end - start, &access, 1);
            end_of_pages = end;
        }
    }
    add_gap(covered, end_of_pages);
}

/* Whether the launch changed a region. */
static int changes(size_t region) {
    size_t i;
    for (i = 0; i < AFTER_COUNT; ++i)
        if (AFTER[i].region == region)
            return 1;
    return 0;
}

static void find_variables(void *module) {
    size_t i, bytes;
    for (i = 0; i < REGION_COUNT; ++i) {
        const struct region *region = &REGIONS[i];
        address own;
        int status;
        if (!region->variable)
            continue;
        status = cuModuleGetGlobal_v2(&own, &bytes, module, region->variable);
        if (status == NOT_FOUND) {
            /* Compilers drop variables that they have folded. */
            places[i] = 0;
            if (changes(i))
                fail(region->variable, "the launch changed it, but the code has no such variable to compare");
            if (region->kind == VARIABLE)
                printf("skipping variable %s, which the code does not have\n", region->variable);
        } else if (status) {
            check(status, "cuModuleGetGlobal");
        } else if (region->kind == TABLE) {
            CHECK(cuMemcpyDtoD_v2, region->at, own, bytes < region->bytes ? bytes : region->bytes);
        } else {
            if (bytes < region->bytes)
                fail(region->variable, "is smaller than recorded");
            places[i] = own;
        }
    }
}

static void restore(unsigned char *window) {
    size_t i, offset;
    for (i = 0; i < gap_count; ++i)
        CHECK(cuMemsetD8_v2, gaps[i].at, PATTERN, gaps[i].bytes);
    for (i = 0; i < REGION_COUNT; ++i)
        for (offset = 0; places[i] && REGIONS[i].kind != TABLE && offset < REGIONS[i].bytes; offset += WINDOW) {
            size_t bytes = REGIONS[i].bytes - offset < WINDOW ? REGIONS[i].bytes - offset : WINDOW;
            expect(i, offset, bytes, 0, window);
            CHECK(cuMemcpyHtoD_v2, places[i] + offset, window, bytes);
        }
}

/* Number of bytes that differ; prints the first one of each region. */
static size_t compare(unsigned char *window, unsigned char *found) {
    size_t i, offset, k, all = 0;
    for (i = 0; i < REGION_COUNT; ++i) {
        size_t differing = 0, first = 0;
        if (!places[i] || (REGIONS[i].kind != ALLOCATION && REGIONS[i].kind != VARIABLE))
            continue;
        for (offset = 0; offset < REGIONS[i].bytes; offset += WINDOW) {
            size_t bytes = REGIONS[i].bytes - offset < WINDOW ? REGIONS[i].bytes - offset : WINDOW;
            expect(i, offset, bytes, 1, window);
            CHECK(cuMemcpyDtoH_v2, found, places[i] + offset, bytes);
            if (!memcmp(window, found, bytes))
                continue;
            for (k = 0; k < bytes; ++k)
                if (window[k] != found[k] && !differing++)
                    first = offset + k;
        }
        if (differing)
            printf("%zu of the %zu bytes at 0x%llx%s%s differ, the first at offset %zu\n", differing, REGIONS[i].bytes,
                   REGIONS[i].at, REGIONS[i].variable ? ", variable " : "",
                   REGIONS[i].variable ? REGIONS[i].variable : "", first);
        all += differing;
    }
    memset(window, PATTERN, WINDOW);
    for (i = 0; i < gap_count; ++i)
        for (offset = 0; offset < gaps[i].bytes; offset += WINDOW) {
            size_t bytes = gaps[i].bytes - offset < WINDOW ? gaps[i].bytes - offset : WINDOW;
            CHECK(cuMemcpyDtoH_v2, found, gaps[i].at + offset, bytes);
            for (k = 0; k < bytes && memcmp(window, found, bytes); ++k)
                if (found[k] != PATTERN) {
                    printf("the byte at 0x%llx, outside all recorded memory, was written\n", gaps[i].at + offset + k);
                    ++all;
                    break;
                }
        }
    return all;
}

static void launch(void *function) {
    size_t bytes = ARGUMENT_BYTES;
    void *extra[] = {(void *)1, (void *)ARGUMENTS, (void *)2, &bytes, NULL};
    unsigned grid[3] = {GRID}, block[3] = {BLOCK}, cluster[3] = {CLUSTER_SHAPE};
    struct attribute attributes[2];
    struct configuration configuration = {{GRID}, {BLOCK}, SHARED_BYTES, NULL, attributes, 0};
    memset(attributes, 0, sizeof attributes);
    if (cluster[0]) {
        attributes[configuration.count].id = CLUSTER;
        memcpy(attributes[configuration.count++].value.cluster, cluster, sizeof cluster);
    }
    if (IS_COOPERATIVE) {
        attributes[configuration.count].id = COOPERATIVE;
        attributes[configuration.count++].value.cooperative = 1;
    }
    if (configuration.count)
        CHECK(cuLaunchKernelEx, &configuration, function, NULL, extra);
    else
        CHECK(cuLaunchKernel, function, grid[0], grid[1], grid[2], block[0], block[1], block[2], SHARED_BYTES, NULL, NULL,
              extra);
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

int main(int count, char **arguments) {
    char *end = "";
    long runs = 5, run;
    size_t bytes, differing = 0, i;
    const size_t limits[] = {LIMITS};
    unsigned char *window = malloc(WINDOW), *found = malloc(WINDOW), *code;
    float *times;
    void *context, *module, *function, *start, *stop;
    if (count > 1)
        runs = strtol(arguments[1], &end, 10);
    if (count > 2 || (count > 1 && end == arguments[1]) || *end || runs < 1)
        fail("usage", "kernel [RUNS], at least 1");
    times = (size_t)runs <= SIZE_MAX / sizeof *times ? malloc(sizeof *times * (size_t)runs) : NULL;
    if (!window || !found || !times)
        fail("out of memory", times ? "for the comparison" : "for the times of so many runs");
    find_functions();
    CHECK(cuInit, 0);
    CHECK(cuDevicePrimaryCtxRetain, &context, 0);
    CHECK(cuCtxSetCurrent, context);
    for (i = 0; i < sizeof limits / sizeof *limits; ++i)
        if (limits[i])
            CHECK(cuCtxSetLimit, (int)i, limits[i]);
    contents = mapped("memory.bin", &bytes);
    if (bytes != MEMORY_BYTES)
        fail("memory.bin", "is incomplete; copy the folder again");
    map_memory();
    {
        const unsigned char *image = mapped(CODE, &bytes);
        code = calloc(1, bytes + 1); /* PTX is a zero-terminated text. */
        if (!code)
            fail("out of memory", "for the code");
        memcpy(code, image, bytes);
    }
    CHECK(cuModuleLoadData, &module, code);
    CHECK(cuModuleGetFunction, &function, module, KERNEL);
    if (MAX_SHARED_BYTES)
        CHECK(cuFuncSetAttribute, function, MAX_DYNAMIC_SHARED, MAX_SHARED_BYTES);
    find_variables(module);
    CHECK(cuEventCreate, &start, 0);
    CHECK(cuEventCreate, &stop, 0);
    for (run = 0; run < runs && !differing; ++run) {
        restore(window);
        CHECK(cuCtxSynchronize, );
        CHECK(cuEventRecord, start, NULL);
        launch(function);
        CHECK(cuEventRecord, stop, NULL);
        CHECK(cuCtxSynchronize, );
        CHECK(cuEventElapsedTime, &times[run], start, stop);
        differing = compare(window, found);
    }
    if (differing)
        printf(NAME ": %zu bytes differ from the recording in run %ld\n", differing, run);
    else {
        qsort(times, (size_t)runs, sizeof(float), by_size);
        printf(NAME ": verified, %.1f us (median of %ld)\n", 1e3 * times[runs / 2], runs);
    }
    return differing ? 1 : 0;
}
