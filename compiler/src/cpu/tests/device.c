// A CPU device for the tests of the lowering: one system thread per device thread, all lanes of a warp together.
#define _GNU_SOURCE
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct context {
    uint32_t tid[3], ntid[3], ctaid[3], nctaid[3], lane, warp, dynamic_shared_bytes, total_shared_bytes;
    uint8_t *shared;
    uint32_t cluster[3], explicit_cluster;
    uint64_t stack[2];
};

static _Thread_local struct context context;
static _Alignas(128) uint8_t shared[1 << 16];
static pthread_barrier_t block_barrier, warp_barriers[32];
static uint64_t exchange[32][64];
static uint32_t warp_size;
static uint8_t hidden_arguments[256], dispatch_packet[64];
static char printed[1 << 16], taken[1 << 16];
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;
static uint32_t block_predicates[1024];

void *__mneme_cpu_thread(void) { return &context; }
void __mneme_cpu_barrier(uint32_t id, uint32_t count) { pthread_barrier_wait(&block_barrier); }
void __mneme_cpu_converge(uint32_t site) { pthread_barrier_wait(&warp_barriers[context.warp]); }
void __mneme_cpu_cluster_arrive(void) {}
void __mneme_cpu_cluster_wait(void) { pthread_barrier_wait(&block_barrier); }
void __mneme_cpu_yield(void) { sched_yield(); }
void __mneme_cpu_warp_sync(uint32_t mask) { pthread_barrier_wait(&warp_barriers[context.warp]); }

void __mneme_cpu_barrier_arrive(uint32_t id, uint32_t count) {}
uint32_t __mneme_cpu_barrier_vote(uint32_t id, uint32_t counted, uint32_t kind, uint32_t predicate) {
    block_predicates[context.tid[0]] = predicate != 0;
    pthread_barrier_wait(&block_barrier);
    uint32_t count = 0;
    for (uint32_t i = 0; i < context.ntid[0]; i++) count += block_predicates[i];
    pthread_barrier_wait(&block_barrier);
    return kind == 0 ? count : kind == 1 ? count == context.ntid[0] : count != 0;
}

// Textures and surfaces that return their arguments. The geometry determines which words of the coordinates count.
static void asked(uint32_t what, const uint32_t *at, uint32_t *told) {
    static const uint32_t layered[] = {0, 0, 0, 1, 1, 0, 1}, axes[] = {1, 2, 3, 1, 2, 3, 3};
    uint32_t geometry = what & 255, z = axes[geometry] > 2 ? at[3] : 0;
    uint32_t y = axes[geometry] > 1 ? at[2] : 0, layer = layered[geometry] ? at[0] : 0;
    told[0] = what;
    told[1] = layer;
    told[2] = at[1];
    told[3] = y * 100 + z;
}
void __mneme_cpu_texture(uint64_t handle, uint32_t what, uint32_t *registers) {
    uint32_t told[4];
    asked(what, registers, told);
    memcpy(registers, told, sizeof told);
    registers[3] += handle;
}
void __mneme_cpu_surface_load(uint64_t handle, uint32_t what, uint32_t *registers) {
    uint32_t told[4];
    asked(what, registers, told);
    for (int i = 0; i < 16; i++) ((uint8_t *)(registers + 4))[i] = 10 * i + told[1] + told[2] + told[3] + (what >> 16);
}
void __mneme_cpu_surface_store(uint64_t handle, uint32_t what, uint32_t *registers) {
    asked(what, registers, (uint32_t *)handle);
    memcpy((uint32_t *)handle + 4, registers + 4, what >> 8 & 255);
}
uint32_t __mneme_cpu_image_query(uint64_t handle, uint32_t what) { return what * 10 + handle; }

static void publish(uint64_t value) {
    exchange[context.warp][context.lane] = value;
    pthread_barrier_wait(&warp_barriers[context.warp]);
}
static void release(void) { pthread_barrier_wait(&warp_barriers[context.warp]); }

uint64_t __mneme_cpu_shuffle(uint32_t kind, uint32_t mask, uint32_t value, uint32_t lane, uint32_t clamp) {
    publish(value);
    uint32_t segment = (clamp >> 8) & 31, limit = clamp & 31, own = context.lane;
    int32_t last = (own & segment) | (limit & ~segment), first = own & segment, source = 0;
    int valid = 0;
    lane &= 31;
    if (kind == 1) { source = (int32_t)own - (int32_t)lane; valid = source >= last; }
    if (kind == 2) { source = own + lane; valid = source <= last; }
    if (kind == 3) { source = own ^ lane; valid = source <= last; }
    if (kind == 0) { source = first | (lane & ~segment); valid = source <= last; }
    if (!valid) source = own;
    uint64_t result = (uint32_t)exchange[context.warp][source] | (uint64_t)valid << 32;
    release();
    return result;
}

uint32_t __mneme_cpu_vote(uint32_t kind, uint32_t mask, uint32_t predicate) {
    publish(predicate != 0);
    uint32_t ballot = 0;
    for (int i = 0; i < 32; i++) ballot |= (uint32_t)exchange[context.warp][i] << i;
    release();
    return kind == 0 ? ballot & mask : kind == 1 ? (ballot & mask) != 0 : kind == 2 ? (ballot & mask) == mask
         : (ballot & mask) == 0 || (ballot & mask) == mask;
}

uint64_t __mneme_cpu_match(uint32_t kind, uint32_t mask, uint64_t value) {
    publish(value);
    uint32_t same = 0;
    for (int i = 0; i < 32; i++) same |= (uint32_t)(exchange[context.warp][i] == value) << i;
    release();
    same &= mask;
    return kind == 0 ? same : same == mask ? (uint64_t)mask | 1ull << 32 : 0;
}

uint32_t __mneme_cpu_redux(uint32_t kind, uint32_t mask, uint32_t value) {
    publish(value);
    uint32_t result = (uint32_t)exchange[context.warp][0];
    for (int i = 1; i < 32; i++) {
        uint32_t other = (uint32_t)exchange[context.warp][i];
        switch (kind) {
        case 0: result += other; break;
        case 1: result = other < result ? other : result; break;
        case 2: result = other > result ? other : result; break;
        case 3: result = (int32_t)other < (int32_t)result ? other : result; break;
        case 4: result = (int32_t)other > (int32_t)result ? other : result; break;
        case 5: result &= other; break;
        case 6: result |= other; break;
        case 7: result ^= other; break;
        }
    }
    release();
    return result;
}

// These work on whole waves: every lane has to call each of them.
uint64_t __mneme_cpu_wave_ballot(uint32_t predicate) {
    publish(predicate != 0);
    uint64_t ballot = 0;
    for (uint32_t i = 0; i < warp_size; i++) ballot |= exchange[context.warp][i] << i;
    release();
    return ballot;
}

uint64_t __mneme_cpu_wave_exchange(uint32_t value, uint32_t source) {
    publish(value);
    uint64_t result = source < warp_size ? exchange[context.warp][source] | 1ull << 32 : 0;
    release();
    return result;
}

uint64_t __mneme_cpu_wave_permute(uint32_t value, uint32_t destination) {
    publish((uint64_t)destination << 32 | value);
    uint64_t result = 0;
    for (uint32_t i = 0; i < warp_size; i++) {
        uint64_t sent = exchange[context.warp][i];
        if (sent >> 32 == context.lane) result = (uint32_t)sent | 1ull << 32;
    }
    release();
    return result;
}

void __mneme_cpu_wave_site(uint32_t number) {}
void __mneme_cpu_wave_enter(uint32_t call) {}
void __mneme_cpu_wave_leave(void) {}
void __mneme_cpu_wave_converge(uint32_t site) { pthread_barrier_wait(&warp_barriers[context.warp]); }
const uint8_t *__mneme_cpu_implicit_arguments(void) { return hidden_arguments; }
const uint8_t *__mneme_cpu_dispatch_packet(void) { return dispatch_packet; }

// Prints messages as they are passed. Formatting them is the job of the real device.
static void tell(const char *text, size_t length) {
    pthread_mutex_lock(&printing);
    strncat(printed, text, length);
    pthread_mutex_unlock(&printing);
}
uint64_t __mneme_cpu_ockl_printf_begin(uint64_t version) { tell("out", 3); return 7; }
uint64_t __mneme_cpu_ockl_fprintf_stderr_begin(void) { tell("err", 3); return 7; }
uint64_t __mneme_cpu_ockl_printf_append_args(uint64_t message, uint32_t count, uint64_t a0, uint64_t a1, uint64_t a2,
                                             uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint32_t last) {
    uint64_t values[] = {a0, a1, a2, a3, a4, a5, a6};
    char text[256];
    for (uint32_t i = 0; i < count; i++) tell(text, snprintf(text, sizeof text, " %#llx", (unsigned long long)values[i]));
    if (last) tell(".", 1);
    return message;
}
uint64_t __mneme_cpu_ockl_printf_append_string_n(uint64_t message, const char *string, uint64_t length, uint32_t last) {
    tell(" '", 2), tell(string, strnlen(string, length)), tell("'", 1);
    if (last) tell(".", 1);
    return message;
}
const char *test_printed(void) {
    memcpy(taken, printed, sizeof taken);
    printed[0] = 0;
    return taken;
}

uint32_t __mneme_cpu_activemask(void) { return -1; }
void *__mneme_cpu_malloc(uint64_t bytes) { return malloc(bytes); }
void __mneme_cpu_free(void *memory) { free(memory); }
int32_t __mneme_cpu_printf(const char *format, const void *arguments) { return 0; }
void __mneme_cpu_assert(const char *message, const char *file, uint32_t line, const char *function) { abort(); }
void __mneme_cpu_trap(void) { abort(); }
uint64_t __mneme_cpu_clock(void) { return 1; }
uint64_t __mneme_cpu_grid_workspace(void) { return 0x123456789abcdef0; }

uint64_t __mneme_cpu_round(uint32_t op, uint32_t mode, uint64_t a, uint64_t b, uint64_t c) {
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    fesetround(modes[mode]);
    uint64_t bits = 0;
#define CALCULATE(T, FMA, SQRT)                                                                       \
    {                                                                                                  \
        volatile T x, y, z, r;                                                                         \
        memcpy((void *)&x, &a, sizeof x), memcpy((void *)&y, &b, sizeof y), memcpy((void *)&z, &c, sizeof z); \
        switch (op & 15) {                                                                             \
        case 0: r = x + y; break;                                                                      \
        case 1: r = x * y; break;                                                                      \
        case 2: r = FMA(x, y, z); break;                                                               \
        case 3: r = x / y; break;                                                                      \
        case 4: r = SQRT(x); break;                                                                    \
        default: r = (T)1 / x; break;                                                                  \
        }                                                                                              \
        memcpy(&bits, (void *)&r, sizeof r);                                                           \
    }
    if (op & 16) CALCULATE(float, fmaf, sqrtf) else CALCULATE(double, fma, sqrt)
    fesetround(FE_TONEAREST);
    return bits;
}

struct launch {
    void (*entry)(const void *);
    const void *parameters;
    struct context context;
};

static void *run_thread(void *argument) {
    struct launch *launch = argument;
    context = launch->context;
    pthread_attr_t attributes;
    void *stack;
    size_t bytes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &stack, &bytes);
    pthread_attr_destroy(&attributes);
    context.stack[0] = (uint64_t)stack, context.stack[1] = (uint64_t)stack + bytes;
    launch->entry(launch->parameters);
    return NULL;
}

// Runs a grid of one-dimensional blocks, one after another. Only whole warps.
void test_launch(void (*entry)(const void *), const void *parameters, uint32_t blocks, uint32_t threads, uint32_t shared_bytes,
                 uint32_t lanes) {
    warp_size = lanes;
    uint32_t counts[] = {blocks, 1, 1}, sizes[] = {blocks * threads, 1, 1};
    uint16_t extents[] = {threads, 1, 1};
    memcpy(hidden_arguments, counts, sizeof counts), memcpy(hidden_arguments + 12, extents, sizeof extents);
    memcpy(dispatch_packet + 4, extents, sizeof extents), memcpy(dispatch_packet + 12, sizes, sizeof sizes);
    memcpy(dispatch_packet + 40, &parameters, sizeof parameters);
    pthread_t *handles = calloc(threads, sizeof *handles);
    struct launch *launches = calloc(threads, sizeof *launches);
    pthread_barrier_init(&block_barrier, NULL, threads);
    for (uint32_t w = 0; w < threads / lanes; w++) pthread_barrier_init(&warp_barriers[w], NULL, lanes);
    for (uint32_t b = 0; b < blocks; b++) {
        for (uint32_t t = 0; t < threads; t++) {
            launches[t] = (struct launch){entry, parameters,
                {{t, 0, 0}, {threads, 1, 1}, {b, 0, 0}, {blocks, 1, 1}, t % lanes, t / lanes, 0, shared_bytes, shared, {1, 1, 1}, 0}};
            pthread_create(&handles[t], NULL, run_thread, &launches[t]);
        }
        for (uint32_t t = 0; t < threads; t++) pthread_join(handles[t], NULL);
    }
    free(handles);
    free(launches);
}
