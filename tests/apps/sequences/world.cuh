// The state of a sequence of driver calls: its objects, random choices among them, and the transcript of calls
// and results. The transcript shows an address as the number of a region and an offset, so two runs can be
// compared.
#pragma once

#include "../driver.cuh"

#include <cstdarg>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

using Word = uint32_t;

// Of splitmix64.
__host__ __device__ inline uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

struct Random {
    uint64_t state;
    uint64_t next() { return mixed(state += 0x9e3779b97f4a7c15ULL); }
    size_t below(size_t limit) { return next() % limit; }
    bool chance(unsigned percent) { return below(100) < percent; }
    template <typename T> const T &among(const std::vector<T> &all) { return all[below(all.size())]; }
};

enum class Kind { Plain, Pitched, OnStream, FromPool, Managed, Host, Registered, Mapped };
inline const char *const KIND_NAMES[] = {"plain", "pitched", "stream", "pool", "managed", "host", "registered", "mapped"};

// Memory with unique contents.
struct Region {
    int number;
    Kind kind;
    CUdeviceptr address;
    size_t words;
    // Index of the context of its allocation.
    int context;
    // Devices that may access it, if access is granted by device.
    unsigned granted = 0;
    // Number of its pool, or -1.
    int pool = -1;
    // Index of the stream that used it last, or -1 if no work can be in progress.
    int stream = -1;
    // Contains addresses, which vary between runs: do not compute with it or read it back.
    bool holds_addresses = false;
    // System memory, provided by the application.
    void *host = nullptr;
    // The reservation that it is mapped into.
    int reservation = -1;
};

struct Stream {
    CUstream handle;
    int context;
    bool alive;
    // Created here, not by the driver.
    bool own;
};

struct Context {
    CUcontext handle;
    int device;
    bool primary;
    bool alive;
    // Indices of contexts whose memory its kernels may access.
    unsigned peers = 0;
};

struct Reservation {
    CUdeviceptr base;
    size_t pages;
    // Number of the region mapped to each page, or -1.
    std::vector<int> mapped;
};

struct Pool {
    CUmemoryPool handle;
    int device;
    unsigned granted;
    bool alive;
    int number;
};

// A loaded form of the kernels' code.
struct Code {
    enum { RUNTIME, LIBRARY, MODULE } form;
    // Index of the only context that can use it, or -1 if there are several.
    int context;
    CUmodule module = nullptr;
    CUlibrary library = nullptr;
    bool alive = true;
};

class World {
  public:
    World(uint64_t seed, int thread, bool shares_process, bool destroys_pools_in_use)
        : seed(seed), thread(thread), shares_process(shares_process), destroys_pools_in_use(destroys_pools_in_use) {}

    const uint64_t seed;
    const int thread;
    // Other threads run sequences in this process at the same time.
    const bool shares_process;
    const bool destroys_pools_in_use;
    uint64_t step = 0;
    std::string text;
    std::vector<Region> regions;
    std::vector<Stream> streams;
    std::vector<Context> contexts;
    std::vector<Reservation> reservations;
    std::vector<Pool> pools;
    std::vector<Code> codes;
    // Memory that asynchronous copies read or write.
    std::vector<std::unique_ptr<std::vector<Word>>> buffers;
    int current = 0;
    int regions_made = 0;
    uint64_t launches_made = 0;
    // Launches that a recorder can record.
    uint64_t launches = 0;
    // Opened in place of all earlier ones, and not the driver's or a recorder's.
    std::vector<int> descriptors;

    __attribute__((format(printf, 2, 3))) void say(const char *format, ...) {
        char buffer[256];
        va_list arguments;
        va_start(arguments, format);
        std::vsnprintf(buffer, sizeof buffer, format, arguments);
        va_end(arguments);
        text += buffer;
    }

    CUresult called(const char *name, CUresult status) {
        say("\n    %s %d", name, static_cast<int>(status));
        return status;
    }

    const Context &context() const { return contexts[current]; }
    int device() const { return context().device; }

    // An address in the form of the transcript.
    std::string place(CUdeviceptr address) const {
        if (!address)
            return "null";
        for (const Region &region : regions)
            if (address >= region.address && address < region.address + region.words * sizeof(Word))
                return "r" + std::to_string(region.number) + "+" + std::to_string(address - region.address);
        for (size_t index = 0; index < reservations.size(); ++index) {
            const Reservation &reservation = reservations[index];
            if (address >= reservation.base && address < reservation.base + reservation.pages * page())
                return "v" + std::to_string(index) + "+" + std::to_string(address - reservation.base);
        }
        return "elsewhere";
    }

    // Whether kernels of the current context may access it.
    bool is_reachable(const Region &region) const {
        const Context &owner = contexts[region.context];
        switch (region.kind) {
        case Kind::Plain:
        case Kind::Pitched: return region.context == current || (context().peers >> region.context & 1);
        case Kind::OnStream: return owner.device == device();
        case Kind::FromPool:
        case Kind::Mapped: return region.granted >> device() & 1;
        default: return true;
        }
    }

    bool is_hosts(const Region &region) const {
        return region.kind == Kind::Managed || region.kind == Kind::Host || region.kind == Kind::Registered;
    }

    Region &region(int number) {
        for (Region &region : regions)
            if (region.number == number)
                return region;
        std::abort();
    }

    template <typename Wanted> std::vector<int> numbers(Wanted wanted) const {
        std::vector<int> found;
        for (const Region &region : regions)
            if (wanted(region))
                found.push_back(region.number);
        return found;
    }

    // At most `most` different regions without addresses in them that kernels of the current context may use.
    std::vector<int> data(Random &random, size_t most, size_t words = 1) {
        std::vector<int> all = numbers([&](const Region &region) {
            return !region.holds_addresses && region.words >= words && is_reachable(region);
        });
        while (all.size() > most)
            all.erase(all.begin() + static_cast<long>(random.below(all.size())));
        for (size_t index = all.size(); index > 1; --index)
            std::swap(all[index - 1], all[random.below(index)]);
        return all;
    }

    // A stream of the current context: the sequence's or the driver's.
    int some_stream(Random &random) {
        std::vector<int> all;
        for (size_t index = 0; index < streams.size(); ++index)
            if (streams[index].alive && (streams[index].context == current || !streams[index].own))
                all.push_back(static_cast<int>(index));
        return random.among(all);
    }

    static size_t page() {
        static const size_t bytes = [] {
            CUmemAllocationProp properties = {};
            properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
            properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
            size_t bytes = 0;
            DRIVER_OK(cuMemGetAllocationGranularity, &bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
            return bytes;
        }();
        return bytes;
    }

    std::vector<Word> &buffer(size_t words) {
        buffers.push_back(std::make_unique<std::vector<Word>>(words));
        return *buffers.back();
    }
};

// Calls a driver function and notes its status.
#define CALL(name, ...)                                                                                                \
    world.called(#name, [&] {                                                                                          \
        static auto *const drivers_own = DRIVER(name);                                                                  \
        return drivers_own(__VA_ARGS__);                                                                               \
    }())

// Calls from a new thread, with or without a context, and waits for it.
template <typename Calls> void on_another_thread(World &world, bool has_context, Calls calls) {
    world.say("\n    (%s)", has_context ? "another thread" : "another thread, without a context");
    std::thread([&] {
        if (has_context)
            CALL(cuCtxSetCurrent, world.context().handle);
        calls();
    }).join();
}

// Makes the host wait for all work of the current context.
inline void settle(World &world) {
    CALL(cuCtxSynchronize);
    for (Region &region : world.regions)
        if (region.stream >= 0 && (world.streams[region.stream].context == world.current || !world.streams[region.stream].own))
            region.stream = -1;
}

// Makes the host wait for work that uses the region.
inline void wait_for(World &world, Region &region) {
    if (region.stream >= 0)
        CALL(cuStreamSynchronize, world.streams[region.stream].handle);
    region.stream = -1;
}

// Orders work on a stream after earlier uses of the region.
inline void use_on(World &world, Random &random, Region &region, int stream) {
    if (region.stream >= 0 && region.stream != stream) {
        switch (random.below(4)) {
        case 0: settle(world); break;
        case 1: wait_for(world, region); break;
        default: {
            CUevent event = nullptr;
            CALL(cuEventCreate, &event, random.chance(50) ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT);
            CALL(cuEventRecord, event, world.streams[region.stream].handle);
            CALL(cuStreamWaitEvent, world.streams[stream].handle, event, 0);
            CALL(cuEventDestroy, event);
        }
        }
    }
    region.stream = stream;
}

// Makes another context current. The old one has no work in progress.
inline void enter(World &world, Random &random, int context) {
    if (context == world.current)
        return;
    settle(world);
    if (random.chance(50)) {
        CALL(cuCtxSetCurrent, world.contexts[context].handle);
    } else {
        CUcontext left = nullptr;
        CALL(cuCtxPopCurrent, &left);
        world.say(" %s", left == world.context().handle ? "own" : "other");
        CALL(cuCtxPushCurrent, world.contexts[context].handle);
    }
    world.current = context;
    world.say(" c%d", context);
}
