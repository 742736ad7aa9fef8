// A program that dies while its first instance may still be written: `dying WAY [n]`. WAY is abort, fault, overflow (of
// the stack), overflow-stack (with an alternate stack for handlers), overflow-handled (by a handler on that stack) or
// fault-handled.
#include "check.cuh"

#include <csignal>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

__global__ void advance(unsigned *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = values[i] * 1664525u + 1013904223u;
}

static volatile int depth;

__attribute__((noinline)) static int descend(int level) {
    volatile char space[4096];
    space[0] = static_cast<char>(level);
    depth = level;
    return descend(level + 1) + space[0];
}

static void handle(int signal, siginfo_t *information, void *) {
    char text[64];
    int length = std::snprintf(text, sizeof text, "signal %d, code %d\n", signal, information->si_code);
    static_cast<void>(!write(1, text, length));
    _exit(7);
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "";
    int n = argc > 2 ? std::atoi(argv[2]) : 1000;
    auto is = [&](const char *name) { return std::strncmp(way, name, std::strlen(name)) == 0; };
    if (std::strstr(way, "-")) {
        stack_t stack = {};
        stack.ss_size = 1 << 16;
        stack.ss_sp = std::malloc(stack.ss_size);
        sigaltstack(&stack, nullptr);
    }
    if (std::strstr(way, "-handled")) {
        struct sigaction action = {};
        action.sa_sigaction = handle;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigaction(SIGSEGV, &action, nullptr);
    }
    std::vector<unsigned> host(n);
    for (int i = 0; i < n; ++i)
        host[i] = scramble(i);
    DeviceArray<unsigned> values(host);
    advance<<<blocks_for(n, 128), 128>>>(values.get(), n);
    LAUNCH_OK();
    std::puts("dying: launched");
    std::fflush(stdout);
    if (is("abort"))
        std::abort();
    if (is("fault"))
        *static_cast<volatile int *>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) = 1;
    if (is("overflow"))
        return descend(0);
    return finish("dying", true, n);
}
