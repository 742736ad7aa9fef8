// Steps that interrupt threads and processes: cancelled threads, jumps out of calls, children, closed descriptors.
#pragma once

#include "waits.cuh"

#include <csetjmp>
#include <csignal>
#include <functional>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

// Calls of a thread that is cancelled before them and ends at its first cancellation point after them, or that just
// ends.
inline void cancel(World &world, Random &random) {
    settle(world);
    bool cancels = random.chance(80);
    std::function<void()> calls = [&] {
        CALL(cuCtxSetCurrent, world.context().handle);
        if (cancels)
            pthread_cancel(pthread_self());
        for (size_t count = 1 + random.below(3); count > 0; --count) {
            switch (random.below(4)) {
            case 0: allocate(world, random); break;
            case 1: read_some(world, random); break;
            default: launch_on(world, random, some_code(world, random), world.some_stream(random), false);
            }
        }
        // It has its own stream of that name.
        settle(world);
        world.say("\n    (at its end)");
        pthread_testcancel();
        pthread_exit(nullptr);
    };
    world.say("\n    (a thread that %s)", cancels ? "is cancelled" : "exits");
    pthread_t thread;
    auto run = [](void *calls) -> void * {
        (*static_cast<std::function<void()> *>(calls))();
        return nullptr;
    };
    if (pthread_create(&thread, nullptr, run, &calls) != 0)
        std::exit(2);
    void *end = nullptr;
    pthread_join(thread, &end);
    world.say(" %s", end == PTHREAD_CANCELED ? "cancelled" : "gone");
    settle(world);
}

inline thread_local sigjmp_buf landing;

inline void jump_back(int) { siglongjmp(landing, 1); }

inline void *hole = nullptr;
constexpr size_t HOLE_BYTES = 4096;

inline void allow(int) { mprotect(hole, HOLE_BYTES, PROT_READ | PROT_WRITE); }

// Passes inaccessible memory to a call. The program's handler jumps out of the call, or makes the memory accessible if
// the call may already have started its work.
inline void jump_out(World &world, Random &random) {
    // All threads of a process share a handler.
    if (world.shares_process)
        return;
    Target target;
    CUfunction function = function_of(world, world.codes[some_code(world, random)], BUMP);
    if (!target.choose(world, random))
        return;
    settle(world);
    hole = mmap(nullptr, HOLE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (hole == MAP_FAILED)
        std::exit(2);
    struct sigaction own = {}, before = {};
    size_t way = random.below(4);
    own.sa_handler = way == 2 ? allow : jump_back;
    sigaction(SIGSEGV, &own, &before);
    void *parameters[] = {hole, hole, hole};
    if (sigsetjmp(landing, 1) == 0) {
        switch (way) {
        case 0: CALL(cuLaunchKernel, function, 1, 1, 1, 32, 1, 1, 0, nullptr, static_cast<void **>(hole), nullptr); break;
        case 1: CALL(cuLaunchKernel, function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr); break;
        case 2: CALL(cuMemcpyHtoD, target.address, hole, sizeof(Word)); break;
        default: CALL(cuStreamCreate, static_cast<CUstream *>(hole), CU_STREAM_NON_BLOCKING);
        }
    } else {
        world.say("\n    (jumped)");
    }
    sigaction(SIGSEGV, &before, nullptr);
    munmap(hole, HOLE_BYTES);
    settle(world);
}

// A child that ends at once, or calls exec, while work is in progress.
inline void have_child(World &world, Random &random) {
    if (random.chance(50))
        launch_on(world, random, some_code(world, random), world.some_stream(random), false);
    char name[] = "true";
    char *arguments[] = {name, nullptr};
    pid_t child = -1;
    int status = 0;
    switch (random.below(4)) {
    case 0:
        if ((child = fork()) == 0)
            _exit(7);
        break;
    case 1:
        if ((child = fork()) == 0) {
            execvp(name, arguments);
            _exit(8);
        }
        break;
    case 2:
        if ((child = vfork()) == 0) {
            execvp(name, arguments);
            _exit(8);
        }
        break;
    default: posix_spawnp(&child, name, nullptr, nullptr, arguments, environ);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    world.say("\n    (child) %d", status);
}

constexpr char CONTENTS[] = "the program's own";

// Closes all descriptors but the standard ones, and opens its own files in their place.
inline void close_descriptors(World &world, Random &random) {
    // Memory that may be mapped again is a descriptor.
    if (world.shares_process || !world.descriptors.empty() || !world.reservations.empty())
        return;
    if (random.chance(50))
        settle(world);
    closefrom(3);
    for (int count = 0; count < 24; ++count) {
        int descriptor = memfd_create("own", 0);
        if (write(descriptor, CONTENTS, sizeof CONTENTS) != sizeof CONTENTS)
            std::exit(2);
        world.descriptors.push_back(descriptor);
    }
    world.say("\n    (closed)");
}

// Reports whether they are unchanged.
inline void check_descriptors(World &world) {
    for (int descriptor : world.descriptors) {
        char found[64];
        ssize_t size = pread(descriptor, found, sizeof found, 0);
        bool whole = size == sizeof CONTENTS && std::memcmp(found, CONTENTS, sizeof CONTENTS) == 0;
        if (!whole || lseek(descriptor, 0, SEEK_CUR) != sizeof CONTENTS)
            world.say("\n  descriptor %d is not the program's own any more", descriptor);
        close(descriptor);
    }
    world.descriptors.clear();
}
