// Steps that create and destroy streams, contexts, code and graphs, and steps that launch.
#pragma once

#include "kernels.cuh"
#include "mappings.cuh"

// This program's device code image, where the compiler placed it in the executable.
const void *code_image();

inline void make_stream(World &world, Random &random) {
    size_t own = 0;
    for (const Stream &stream : world.streams)
        own += stream.own && stream.alive;
    if (own >= 4)
        return;
    CUstream handle = nullptr;
    unsigned flags = random.chance(50) ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    CUresult status = random.chance(50) ? CALL(cuStreamCreate, &handle, flags) : CALL(cuStreamCreateWithPriority, &handle, flags, 0);
    if (status != CUDA_SUCCESS)
        return;
    world.streams.push_back({handle, world.current, true, true});
    world.say(" s%zu", world.streams.size() - 1);
}

inline void destroy_stream(World &world, Random &random) {
    for (size_t index = 0; index < world.streams.size(); ++index) {
        Stream &stream = world.streams[index];
        if (!stream.own || !stream.alive || stream.context != world.current || !random.chance(60))
            continue;
        bool first = random.chance(50);
        if (first)
            settle(world);
        CALL(cuStreamDestroy, stream.handle);
        world.say(" s%zu", index);
        stream.alive = false;
        if (!first)
            CALL(cuCtxSynchronize);
        for (Region &region : world.regions)
            if (region.stream == static_cast<int>(index))
                region.stream = -1;
        return;
    }
}

inline void synchronise(World &world, Random &random) {
    int stream = world.some_stream(random);
    if (random.chance(50))
        return settle(world);
    CALL(cuStreamSynchronize, world.streams[stream].handle);
    // Other threads may use the driver's streams.
    if (!world.shares_process || world.streams[stream].own)
        CALL(cuStreamQuery, world.streams[stream].handle);
}

// Some words of a region that is large enough.
inline CUdeviceptr part(Random &random, const Region &region, size_t words) {
    return region.address + random.below(region.words - words + 1) * sizeof(Word);
}

// Kernels that use only their arguments.
constexpr Kernel CAPTURED[] = {BUMP, TALLY, REVERSE, PACKED};
// Kernels that follow pointers in memory.
constexpr Kernel INDIRECT[] = {THROUGH, GATHER, FOLLOW, ANCHORED};

// Launches a kernel on regions of all kinds. On a stream in a capture, only if all regions are settled.
inline void launch_on(World &world, Random &random, int code_index, int stream, bool captured) {
    const Code &code = world.codes[code_index];
    // If threads share code, they share its variables too.
    bool shared_variables = world.shares_process && code.form != Code::MODULE;
    // Recorders most easily get kernels wrong that follow pointers in memory.
    Kernel kernel = random.chance(35) ? INDIRECT[random.below(std::size(INDIRECT))] : static_cast<Kernel>(random.below(KERNELS));
    if (captured || shared_variables)
        kernel = CAPTURED[random.below(std::size(CAPTURED))];
    size_t wanted = kernel == THROUGH || kernel == GATHER || kernel == FOLLOW ? 2 + random.below(5) : kernel == PACKED ? 3 : kernel == TALLY ? 2 : 1;
    std::vector<int> used = world.data(random, wanted + (kernel == ANCHORED), kernel == TALLY ? CELLS : 1);
    size_t needed = kernel == PACKED ? 3 : kernel == BUMP || kernel == SCALE || kernel == REVERSE ? 1 : 2;
    if (used.size() < needed)
        return;
    CUstream handle = world.streams[stream].handle;
    size_t least = MOST_WORDS;
    for (int number : used)
        least = std::min(least, world.region(number).words);
    unsigned n = static_cast<unsigned>(1 + random.below(least)), block = 32u << random.below(3), shared = 0;
    std::vector<CUdeviceptr> places;
    for (int number : used) {
        if (!captured)
            use_on(world, random, world.region(number), stream);
        places.push_back(part(random, world.region(number), kernel == TALLY ? std::max(n, CELLS) : n));
    }
    Arguments arguments;
    arguments.add(launch_number(world));
    switch (kernel) {
    case THROUGH:
    case GATHER:
    case FOLLOW: {
        // A table or a list in memory of any kind. It overwrites the old contents.
        unsigned count = static_cast<unsigned>(std::min<size_t>(used.size() - (kernel != THROUGH), ENTRIES));
        size_t words = kernel == FOLLOW ? count * sizeof(Node) / sizeof(Word) : count * sizeof(CUdeviceptr) / sizeof(Word);
        std::vector<int> tables = world.numbers([&](const Region &region) {
            for (int number : used)
                if (number == region.number)
                    return false;
            return region.words >= words + 1 && world.is_reachable(region);
        });
        if (tables.empty())
            return;
        Region &table = world.region(random.among(tables));
        size_t at = random.below((table.words - words) / 2 + 1) * 2;
        CUdeviceptr address = table.address + at * sizeof(Word);
        std::vector<CUdeviceptr> entries(words / 2);
        for (unsigned entry = 0; entry < count; ++entry) {
            if (kernel != FOLLOW) {
                entries[entry] = places[entry];
                continue;
            }
            entries[2 * entry] = entry + 1 < count ? address + (entry + 1) * sizeof(Node) : 0;
            entries[2 * entry + 1] = places[entry];
        }
        put(world, random, table, at, reinterpret_cast<const Word *>(entries.data()), words);
        table.holds_addresses = true;
        use_on(world, random, table, stream);
        // The calls that filled the table may have settled everything.
        for (int number : used)
            use_on(world, random, world.region(number), stream);
        arguments.add(address);
        if (kernel != FOLLOW)
            arguments.add(count);
        if (kernel != THROUGH)
            arguments.add(places.back());
        arguments.add(n);
        world.say(" table r%d", table.number);
        break;
    }
    case SCALE: {
        Word numbers[CELLS], cells[CELLS];
        for (unsigned index = 0; index < CELLS; ++index) {
            numbers[index] = static_cast<Word>(random.next());
            cells[index] = static_cast<Word>(random.next());
        }
        settle(world);
        CALL(cuMemcpyHtoD, variable_of(world, code, "factors", factors), numbers, sizeof factors);
        CALL(cuMemcpyHtoD, variable_of(world, code, "settings", settings), cells, sizeof settings);
        CALL(cuMemcpyHtoD, variable_of(world, code, "counters", counters), numbers, sizeof counters);
        settle(world);
        use_on(world, random, world.region(used[0]), stream);
        arguments.add(places[0]).add(n);
        break;
    }
    case ANCHORED:
        settle(world);
        CALL(cuMemcpyHtoD, variable_of(world, code, "anchor", &anchor), &places[1], sizeof places[1]);
        settle(world);
        for (int number : used)
            use_on(world, random, world.region(number), stream);
        arguments.add(places[0]).add(n);
        break;
    case PACKED: {
        Pack pack = {};
        pack.scale = static_cast<double>(1 + random.below(9));
        pack.out = reinterpret_cast<Word *>(places[0]);
        pack.in = reinterpret_cast<const Word *>(places[1]);
        pack.more = reinterpret_cast<Word *>(places[2]);
        pack.n = n;
        for (Word &word : pack.pad)
            word = static_cast<Word>(random.next());
        arguments.add(pack);
        break;
    }
    case TALLY: arguments.add(places[0]).add(places[1]).add(n); break;
    case REVERSE:
        block = std::min(block, n);
        shared = block * static_cast<unsigned>(sizeof(Word) * (1 + random.below(3)));
        arguments.add(places[0]).add(n / block);
        break;
    default: arguments.add(places[0]).add(n);
    }
    CUfunction function = function_of(world, code, kernel);
    world.say("\n   * %s k%d s%d %u:", KERNEL_NAMES[kernel], code_index, stream, n);
    for (int number : used)
        world.say(" r%d", number);
    launch(world, random, function, arguments, block, shared, handle, captured);
    if (kernel == SCALE) {
        settle(world);
        Word cells[CELLS];
        CALL(cuMemcpyDtoH, cells, variable_of(world, code, "counters", counters), sizeof cells);
        uint64_t hash = 0;
        for (Word cell : cells)
            hash = mixed(hash + cell);
        world.say(" = %016llx", static_cast<unsigned long long>(hash));
    } else if (kernel == ANCHORED) {
        settle(world);
    }
}

inline void launch_some(World &world, Random &random) {
    launch_on(world, random, some_code(world, random), world.some_stream(random), false);
}

// Launches that the driver refuses, or launches without effect.
inline void launch_wrongly(World &world, Random &random) {
    std::vector<int> used = world.data(random, 1);
    if (used.empty())
        return;
    const Code &code = world.codes[some_code(world, random)];
    CUfunction function = function_of(world, code, BUMP);
    Arguments arguments;
    arguments.add(launch_number(world)).add(world.region(used[0]).address).add(1u);
    CUstream stream = world.streams[world.some_stream(random)].handle;
    unsigned grid = 1, block = 32, shared = 0;
    switch (random.below(4)) {
    case 0: grid = 0; break;
    case 1: block = 0; break;
    case 2: block = 2048; break;
    default: shared = 8 << 20;
    }
    CALL(cuLaunchKernel, function, grid, 1, 1, block, 1, 1, shared, stream, arguments.pointers(), nullptr);
}

inline void CUDA_CB add_up(void *data) { *static_cast<Word *>(data) += 3; }

inline void call_host(World &world, Random &random) {
    int stream = world.some_stream(random);
    std::vector<Word> &cell = world.buffer(1);
    cell[0] = static_cast<Word>(random.next());
    CALL(cuLaunchHostFunc, world.streams[stream].handle, add_up, cell.data());
    CALL(cuStreamSynchronize, world.streams[stream].handle);
    world.say(" %u", cell[0]);
}

inline void use_events(World &world, Random &random) {
    int stream = world.some_stream(random);
    CUevent first = nullptr, second = nullptr;
    float milliseconds = -1;
    CALL(cuEventCreate, &first, CU_EVENT_DEFAULT);
    CALL(cuEventCreate, &second, random.chance(30) ? CU_EVENT_BLOCKING_SYNC : CU_EVENT_DEFAULT);
    CALL(cuEventRecord, first, world.streams[stream].handle);
    if (random.chance(50))
        launch_on(world, random, some_code(world, random), stream, false);
    CALL(cuEventRecord, second, world.streams[stream].handle);
    CALL(cuEventSynchronize, second);
    CALL(cuEventQuery, second);
    CALL(cuEventElapsedTime, &milliseconds, first, second);
    world.say(" %s", milliseconds >= 0 ? "later" : "earlier");
    CALL(cuEventDestroy, first);
    CALL(cuEventDestroy, second);
}

// Work in a new stream, captured and launched as a graph.
inline void capture(World &world, Random &random) {
    if (!world.context().primary)
        return;
    settle(world);
    CUstream handle = nullptr;
    if (CALL(cuStreamCreate, &handle, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return;
    world.streams.push_back({handle, world.current, true, true});
    int stream = static_cast<int>(world.streams.size()) - 1;
    std::vector<int> used = world.data(random, 2);
    int code = some_code(world, random);
    // Lazily loaded code would be loaded inside the capture.
    for (Kernel kernel : CAPTURED)
        function_of(world, world.codes[code], kernel);
    CUstreamCaptureMode mode = world.shares_process ? CU_STREAM_CAPTURE_MODE_RELAXED : static_cast<CUstreamCaptureMode>(random.below(3));
    CALL(cuStreamBeginCapture, handle, mode);
    if (used.size() == 2) {
        const Region &to = world.region(used[0]), &from = world.region(used[1]);
        size_t words = 1 + random.below(std::min(to.words, from.words));
        if (random.chance(50))
            CALL(cuMemcpyAsync, to.address, from.address, words * sizeof(Word), handle);
        else
            CALL(cuMemsetD32Async, to.address, static_cast<Word>(random.next()), words, handle);
    }
    for (size_t count = 1 + random.below(2); count > 0; --count)
        launch_on(world, random, code, stream, true);
    CUgraph graph = nullptr;
    CUgraphExec executable = nullptr;
    CALL(cuStreamEndCapture, handle, &graph);
    CALL(cuGraphInstantiate, &executable, graph, 0);
    for (size_t count = 1 + random.below(2); count > 0; --count)
        CALL(cuGraphLaunch, executable, handle);
    CALL(cuStreamSynchronize, handle);
    CALL(cuGraphExecDestroy, executable);
    CALL(cuGraphDestroy, graph);
    CALL(cuStreamDestroy, handle);
    world.streams[stream].alive = false;
    settle(world);
}

inline void load_code(World &world, Random &random) {
    size_t loaded = 0;
    for (const Code &code : world.codes)
        loaded += code.form == Code::MODULE && code.alive;
    if (loaded >= 2)
        return;
    (void)random;
    Code code = {Code::MODULE, world.current};
    if (CALL(cuModuleLoadData, &code.module, code_image()) == CUDA_SUCCESS) {
        world.say(" k%zu", world.codes.size());
        world.codes.push_back(code);
    }
}

inline void unload_code(World &world, Random &random) {
    for (Code &code : world.codes) {
        if (code.form != Code::MODULE || !code.alive || code.context != world.current || random.chance(30))
            continue;
        settle(world);
        CALL(cuModuleUnload, code.module);
        code.alive = false;
        return;
    }
}

inline void make_context(World &world, Random &random) {
    size_t alive = 0;
    for (const Context &context : world.contexts)
        alive += context.alive && !context.primary;
    if (alive >= 1 || world.contexts.size() >= 8)
        return;
    settle(world);
    int device = world.contexts[random.below(world.contexts.size())].device;
    CUcontext handle = nullptr;
    CUcontext left = world.context().handle;
    if (CALL(cuCtxCreate, &handle, 0, device) != CUDA_SUCCESS)
        return;
    world.contexts.push_back({handle, device, false, true});
    world.say(" c%zu d%d", world.contexts.size() - 1, device);
    world.current = static_cast<int>(world.contexts.size()) - 1;
    // It was pushed, and from here on it replaces the previous one.
    CUcontext top = nullptr;
    CALL(cuCtxPopCurrent, &top);
    CALL(cuCtxPopCurrent, &top);
    world.say(" %s", top == left ? "own" : "other");
    CALL(cuCtxPushCurrent, handle);
}

inline void change_context(World &world, Random &random) {
    std::vector<int> others;
    for (size_t index = 0; index < world.contexts.size(); ++index)
        if (world.contexts[index].alive && static_cast<int>(index) != world.current)
            others.push_back(static_cast<int>(index));
    if (!others.empty())
        enter(world, random, random.among(others));
}

// With everything in it.
inline void destroy_context(World &world, Random &random) {
    for (size_t index = 0; index < world.contexts.size(); ++index) {
        int own = static_cast<int>(index);
        if (world.contexts[index].primary || !world.contexts[index].alive)
            continue;
        if (world.current == own && random.chance(50))
            enter(world, random, 0);
        settle(world);
        bool was_current = world.current == own;
        CALL(cuCtxDestroy, world.contexts[index].handle);
        world.say(" c%zu", index);
        world.contexts[index].alive = false;
        for (Stream &stream : world.streams)
            if (stream.own && stream.context == own)
                stream.alive = false;
        for (Code &code : world.codes)
            if (code.context == own)
                code.alive = false;
        for (size_t at = world.regions.size(); at-- > 0;)
            if (world.regions[at].context == own && world.regions[at].kind != Kind::Mapped)
                world.regions.erase(world.regions.begin() + static_cast<long>(at));
        if (was_current) {
            CALL(cuCtxSetCurrent, world.contexts[0].handle);
            world.current = 0;
        }
        return;
    }
}

inline void change_peers(World &world, Random &random) {
    std::vector<int> others;
    for (size_t index = 0; index < world.contexts.size(); ++index)
        if (world.contexts[index].alive && world.contexts[index].device != world.device())
            others.push_back(static_cast<int>(index));
    if (others.empty() || world.shares_process)
        return;
    settle(world);
    int other = random.among(others);
    unsigned bit = 1u << other;
    Context &own = world.contexts[world.current];
    if (own.peers & bit && random.chance(70)) {
        if (CALL(cuCtxDisablePeerAccess, world.contexts[other].handle) == CUDA_SUCCESS)
            own.peers &= ~bit;
    } else if (CALL(cuCtxEnablePeerAccess, world.contexts[other].handle, 0) == CUDA_SUCCESS) {
        own.peers |= bit;
    }
    world.say(" c%d c%d", world.current, other);
}

// Between the devices. It needs no access by kernels.
inline void copy_between(World &world, Random &random) {
    std::vector<int> all = world.numbers([&](const Region &region) {
        return (region.kind == Kind::Plain || region.kind == Kind::Pitched) && !region.holds_addresses;
    });
    if (all.size() < 2)
        return;
    Region &to = world.region(random.among(all)), &from = world.region(random.among(all));
    if (to.number == from.number)
        return;
    // All work in progress belongs to the current context. Other work was waited for on leaving its context.
    settle(world);
    size_t bytes = (1 + random.below(std::min(to.words, from.words))) * sizeof(Word);
    CALL(cuMemcpyPeer, to.address, world.contexts[to.context].handle, from.address, world.contexts[from.context].handle, bytes);
    settle(world);
    world.say(" r%d r%d", to.number, from.number);
}
