// Steps with kernels that run for long or wait for the host, or for work on another stream.
#pragma once

#include "lifetimes.cuh"

#include <chrono>

// A few words that kernels and the host can access at any time.
struct SharedWords {
    enum { ALLOCATED, MANAGED, REGISTERED } kind;
    void *host = nullptr;
    CUdeviceptr device = 0;

    volatile Word *words() const { return static_cast<volatile Word *>(host); }
};

constexpr size_t SHARED_BYTES = 4096;

inline bool make_shared(World &world, Random &random, SharedWords &shared) {
    CUresult status = CUDA_ERROR_UNKNOWN;
    shared.kind = static_cast<decltype(shared.kind)>(random.below(3));
    switch (shared.kind) {
    case SharedWords::ALLOCATED:
        status = CALL(cuMemHostAlloc, &shared.host, SHARED_BYTES, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
        break;
    case SharedWords::MANAGED:
        status = CALL(cuMemAllocManaged, &shared.device, SHARED_BYTES, CU_MEM_ATTACH_GLOBAL);
        shared.host = reinterpret_cast<void *>(shared.device);
        break;
    case SharedWords::REGISTERED:
        shared.host = mmap(nullptr, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (shared.host == MAP_FAILED)
            std::exit(2);
        status = CALL(cuMemHostRegister, shared.host, SHARED_BYTES, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
        break;
    }
    if (status == CUDA_SUCCESS && shared.kind != SharedWords::MANAGED)
        status = CALL(cuMemHostGetDevicePointer, &shared.device, shared.host, 0);
    if (status != CUDA_SUCCESS)
        return false;
    std::memset(shared.host, 0, SHARED_BYTES);
    return true;
}

inline void free_shared(World &world, const SharedWords &shared) {
    switch (shared.kind) {
    case SharedWords::ALLOCATED: CALL(cuMemFreeHost, shared.host); break;
    case SharedWords::MANAGED: CALL(cuMemFree, shared.device); break;
    case SharedWords::REGISTERED:
        CALL(cuMemHostUnregister, shared.host);
        munmap(shared.host, SHARED_BYTES);
        break;
    }
}

// Some words that a kernel writes, and the kernel's function. False without such memory here.
struct Target {
    Region *region = nullptr;
    CUdeviceptr address = 0;
    unsigned n = 0;

    bool choose(World &world, Random &random) {
        std::vector<int> used = world.data(random, 1);
        if (used.empty())
            return false;
        region = &world.region(used[0]);
        n = static_cast<unsigned>(1 + random.below(std::min<size_t>(region->words, MOST_WORDS)));
        address = part(random, *region, n);
        return true;
    }
};

// Longer than a call may take, but shorter than any time limit.
inline void take_a_while(World &world, Random &random) {
    Target target;
    if (!target.choose(world, random))
        return;
    int code = some_code(world, random), stream = world.some_stream(random);
    CUfunction function = function_of(world, world.codes[code], PONDER);
    use_on(world, random, *target.region, stream);
    Arguments arguments;
    arguments.add(launch_number(world)).add(target.address).add(static_cast<unsigned>(2000000 * (1 + random.below(15))));
    world.say("\n   * ponder k%d s%d: r%d", code, stream, target.region->number);
    launch(world, random, function, arguments, 32, 0, world.streams[stream].handle, false);
}

// Calls that return while a kernel on the stream waits.
inline void look_on(World &world, Random &random, CUstream stream) {
    for (size_t count = random.below(3); count > 0; --count) {
        if (random.chance(50)) {
            CALL(cuStreamQuery, stream);
            continue;
        }
        CUevent event = nullptr;
        CALL(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
        CALL(cuEventRecord, event, stream);
        CALL(cuEventQuery, event);
        CALL(cuEventDestroy, event);
    }
}

// A kernel that waits for the host: for this thread, which continues after the launch, or for another one.
inline void wait_for_host(World &world, Random &random) {
    Target target;
    SharedWords shared;
    int code = some_code(world, random), stream = world.some_stream(random);
    CUfunction function = function_of(world, world.codes[code], AWAIT);
    if (!target.choose(world, random))
        return;
    settle(world);
    if (!make_shared(world, random, shared))
        return;
    use_on(world, random, *target.region, stream);
    Arguments arguments;
    arguments.add(launch_number(world)).add(shared.device).add(target.address).add(target.n);
    world.say("\n   * await k%d s%d %u: r%d", code, stream, target.n, target.region->number);
    CUstream handle = world.streams[stream].handle;
    bool another = random.chance(30);
    std::thread other;
    if (another)
        other = std::thread([&shared, pause = random.below(60)] {
            std::this_thread::sleep_for(std::chrono::milliseconds(pause));
            *shared.words() = 1;
        });
    launch(world, random, function, arguments, 32, 0, handle, false);
    if (!another) {
        look_on(world, random, handle);
        *shared.words() = 1;
    } else {
        other.join();
    }
    CALL(cuStreamSynchronize, handle);
    settle(world);
    free_shared(world, shared);
}

// The same from a graph.
inline void wait_in_graph(World &world, Random &random) {
    Target target;
    SharedWords shared;
    int code = some_code(world, random);
    CUfunction function = function_of(world, world.codes[code], AWAIT);
    if (!world.context().primary || !target.choose(world, random))
        return;
    settle(world);
    if (!make_shared(world, random, shared))
        return;
    CUstream handle = nullptr;
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    Arguments arguments;
    arguments.add(launch_number(world)).add(shared.device).add(target.address).add(target.n);
    CALL(cuStreamCreate, &handle, CU_STREAM_NON_BLOCKING);
    CALL(cuStreamBeginCapture, handle, CU_STREAM_CAPTURE_MODE_RELAXED);
    world.say("\n   * await k%d %u: r%d", code, target.n, target.region->number);
    launch(world, random, function, arguments, 32, 0, handle, true);
    CALL(cuStreamEndCapture, handle, &graph);
    CALL(cuGraphInstantiate, &executable, graph, 0);
    CALL(cuGraphLaunch, executable, handle);
    look_on(world, random, handle);
    *shared.words() = 1;
    CALL(cuStreamSynchronize, handle);
    CALL(cuGraphExecDestroy, executable);
    CALL(cuGraphDestroy, graph);
    CALL(cuStreamDestroy, handle);
    settle(world);
    free_shared(world, shared);
}

// A kernel that answers each of the host's questions.
inline void talk(World &world, Random &random) {
    Target target;
    SharedWords shared;
    int code = some_code(world, random), stream = world.some_stream(random);
    CUfunction function = function_of(world, world.codes[code], CONVERSE);
    if (!target.choose(world, random))
        return;
    settle(world);
    if (!make_shared(world, random, shared))
        return;
    use_on(world, random, *target.region, stream);
    unsigned rounds = static_cast<unsigned>(1 + random.below(4));
    Arguments arguments;
    arguments.add(launch_number(world)).add(shared.device).add(target.address).add(rounds).add(target.n);
    world.say("\n   * converse k%d s%d %u: r%d", code, stream, target.n, target.region->number);
    launch(world, random, function, arguments, 32, 0, world.streams[stream].handle, false);
    for (unsigned round = 1; round <= rounds; ++round) {
        shared.words()[0] = round;
        while (shared.words()[1] != round)
            std::this_thread::yield();
    }
    world.say(" answered");
    CALL(cuStreamSynchronize, world.streams[stream].handle);
    settle(world);
    free_shared(world, shared);
}

// A kernel that waits for a kernel or a copy on another stream that is launched later.
inline void wait_for_stream(World &world, Random &random) {
    Target target;
    int code = some_code(world, random);
    CUfunction waits = function_of(world, world.codes[code], AWAIT), sets = function_of(world, world.codes[code], ANNOUNCE);
    if (!target.choose(world, random))
        return;
    settle(world);
    // The flag, and a word to set it from.
    CUdeviceptr flag = 0, source = 0;
    CUstream first = nullptr, second = nullptr;
    if (CALL(cuMemAlloc, &flag, sizeof(Word)) != CUDA_SUCCESS || CALL(cuMemAlloc, &source, sizeof(Word)) != CUDA_SUCCESS)
        return;
    CALL(cuMemsetD32, flag, 0, 1);
    CALL(cuMemsetD32, source, 1, 1);
    CALL(cuStreamCreate, &first, CU_STREAM_NON_BLOCKING);
    CALL(cuStreamCreate, &second, CU_STREAM_NON_BLOCKING);
    settle(world);
    Arguments arguments, setting;
    arguments.add(launch_number(world)).add(flag).add(target.address).add(target.n);
    setting.add(launch_number(world)).add(flag);
    world.say("\n   * await k%d %u: r%d", code, target.n, target.region->number);
    launch(world, random, waits, arguments, 32, 0, first, false);
    look_on(world, random, first);
    switch (random.below(3)) {
    case 0: launch(world, random, sets, setting, 1, 0, second, false); break;
    case 1: CALL(cuMemsetD32Async, flag, 1, 1, second); break;
    default: CALL(cuMemcpyDtoDAsync, flag, source, sizeof(Word), second);
    }
    CALL(cuStreamSynchronize, second);
    CALL(cuStreamSynchronize, first);
    settle(world);
    CALL(cuStreamDestroy, first);
    CALL(cuStreamDestroy, second);
    CALL(cuMemFree, flag);
    CALL(cuMemFree, source);
}
