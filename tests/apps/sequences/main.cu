// Random sequences of driver calls, to compare a recorded run with a plain one: `sequences --seed A --count N` runs the
// sequences with seeds A to A + N - 1 and prints each call and its result, without anything that varies between runs.
// Some sequences use several threads. `--skip 3,1005` omits steps (the second thread's numbers start from 1000) and
// keeps all others legal. `--destroy-pools-in-use 0` destroys pools only if none of their memory is in use. `--without
// 'jump out,cancel'` omits steps by name; `--without exec` omits programs that call exec. `--processes same-ids` or
// `users` runs the sequences in parts, each in a separate process.
#include "interruptions.cuh"
#include "processes.cuh"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

const void *code_image() {
    static const void *const image = [] {
        int file = open("/proc/self/exe", O_RDONLY);
        struct stat status;
        if (file < 0 || fstat(file, &status) != 0)
            std::exit(2);
        auto size = static_cast<size_t>(status.st_size);
        void *mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
        close(file);
        if (mapping == MAP_FAILED)
            std::exit(2);
        auto bytes = static_cast<const char *>(mapping);
        auto header = reinterpret_cast<const ElfW(Ehdr) *>(bytes);
        auto sections = reinterpret_cast<const ElfW(Shdr) *>(bytes + header->e_shoff);
        const char *names = bytes + sections[header->e_shstrndx].sh_offset;
        ElfW(Addr) base = 0;
        dl_iterate_phdr(
            [](dl_phdr_info *info, size_t, void *base) {
                *static_cast<ElfW(Addr) *>(base) = info->dlpi_addr;
                return 1;
            },
            &base);
        const void *found = nullptr;
        for (unsigned index = 0; index < header->e_shnum; ++index)
            if (std::strcmp(names + sections[index].sh_name, ".nv_fatbin") == 0)
                found = reinterpret_cast<const void *>(base + sections[index].sh_addr);
        munmap(mapping, size);
        if (!found) {
            std::fprintf(stderr, "this program has no device code\n");
            std::exit(2);
        }
        return found;
    }();
    return image;
}

// The initial state of all sequences of the process.
struct Process {
    std::vector<CUcontext> primary;
    CUlibrary library = nullptr;
    mutable std::shared_mutex capturing;
};

static void start(Process &process, int most_devices) {
    int devices = 0;
    CUDA_OK(cudaFree(nullptr));
    DRIVER_OK(cuDeviceGetCount, &devices);
    for (int device = 0; device < std::min(devices, most_devices); ++device) {
        CUcontext context = nullptr;
        DRIVER_OK(cuDevicePrimaryCtxRetain, &context, device);
        process.primary.push_back(context);
    }
    DRIVER_OK(cuCtxSetCurrent, process.primary[0]);
    DRIVER_OK(cuLibraryLoadData, &process.library, code_image(), nullptr, nullptr, 0, nullptr, nullptr, 0);
}

struct Step {
    const char *name;
    unsigned weight;
    void (*run)(World &, Random &);
};

static const Step STEPS[] = {
    {"allocate", 16, allocate},
    {"launch", 18, launch_some},
    {"refill", 3, refill},
    {"copy", 8, copy},
    {"read", 6, read_some},
    {"ask", 4, ask},
    {"free", 6, free_some},
    {"free wrongly", 2, free_wrongly},
    {"allocate wrongly", 1, allocate_wrongly},
    {"make pool", 3, make_pool},
    {"destroy pool", 2, destroy_pool},
    {"map", 7, map},
    {"unmap", 2, unmap_some},
    {"change access", 3, change_access},
    {"grant all", 2, grant_all},
    {"map wrongly", 1, map_wrongly},
    {"make stream", 4, make_stream},
    {"destroy stream", 2, destroy_stream},
    {"synchronise", 3, synchronise},
    {"launch wrongly", 2, launch_wrongly},
    {"call host", 1, call_host},
    {"events", 2, use_events},
    {"capture", 2, capture},
    {"load code", 2, load_code},
    {"unload code", 2, unload_code},
    {"make context", 2, make_context},
    {"change context", 4, change_context},
    {"destroy context", 1, destroy_context},
    {"change peers", 3, change_peers},
    {"copy between", 2, copy_between},
    {"take a while", 1, take_a_while},
    {"wait for host", 1, wait_for_host},
    {"wait in graph", 1, wait_in_graph},
    {"talk", 1, talk},
    {"wait for stream", 1, wait_for_stream},
    {"cancel", 1, cancel},
    {"jump out", 1, jump_out},
    {"have child", 1, have_child},
    {"close descriptors", 1, close_descriptors},
};

static const Step &some_step(Random &random) {
    unsigned total = 0;
    for (const Step &step : STEPS)
        total += step.weight;
    size_t at = random.below(total);
    for (const Step &step : STEPS) {
        if (at < step.weight)
            return step;
        at -= step.weight;
    }
    return STEPS[0];
}

// Releases all remaining objects in some order, so the next sequence starts empty.
static void finish(World &world, Random &random) {
    world.say("\n  end");
    for (const Region &region : std::vector<Region>(world.regions))
        if (!region.holds_addresses && world.is_reachable(region))
            read_back(world, random, world.region(region.number));
    for (size_t index = world.contexts.size(); index-- > 0;)
        destroy_context(world, random);
    for (size_t index = 0; index < world.contexts.size(); ++index) {
        if (!world.contexts[index].primary)
            continue;
        enter(world, random, static_cast<int>(index));
        settle(world);
        for (const Region &region : std::vector<Region>(world.regions)) {
            if (world.contexts[region.context].device != world.device())
                continue;
            if (is_freed_here(world, region))
                release(world, random, region);
        }
        settle(world);
        for (Stream &stream : world.streams) {
            if (!stream.own || !stream.alive || stream.context != world.current)
                continue;
            CALL(cuStreamDestroy, stream.handle);
            stream.alive = false;
        }
        for (Code &code : world.codes) {
            if (code.form != Code::MODULE || !code.alive || code.context != world.current || !random.chance(80))
                continue;
            CALL(cuModuleUnload, code.module);
            code.alive = false;
        }
        for (size_t other = 0; other < world.contexts.size(); ++other)
            if (world.contexts[index].peers >> other & 1 && world.contexts[other].alive)
                CALL(cuCtxDisablePeerAccess, world.contexts[other].handle);
    }
    enter(world, random, 0);
    for (int number : world.numbers([](const Region &region) { return region.kind == Kind::Mapped; }))
        unmap(world, number);
    for (const Reservation &reservation : world.reservations)
        CALL(cuMemAddressFree, reservation.base, reservation.pages * World::page());
    for (Pool &pool : world.pools) {
        if (!pool.alive)
            continue;
        CALL(cuMemPoolDestroy, pool.handle);
        pool.alive = false;
    }
    settle(world);
}

// Each thread's current step, for sequences that hang.
static std::atomic<const char *> doing[3];
static std::atomic<uint64_t> doing_seed;
constexpr unsigned SECONDS_FOR_A_SEQUENCE = 60;

// Prints the sequence's position and ends the program. A signal handler.
static void give_up(int) {
    char text[256];
    const char *names[3];
    for (int thread = 0; thread < 3; ++thread) {
        const char *name = doing[thread];
        names[thread] = name ? name : "nothing";
    }
    int length = std::snprintf(text, sizeof text, "sequence %llu does not end; its threads are at %s, %s, %s\n",
                               static_cast<unsigned long long>(doing_seed.load()), names[0], names[1], names[2]);
    ssize_t written = write(2, text, static_cast<size_t>(length));
    _exit(written == length ? 3 : 4);
}

// Numbers and names of steps.
struct LeftOut {
    std::set<uint64_t> steps;
    std::set<std::string> names;
};

// One thread's part of a sequence.
static void run(const Process &process, World &world, const LeftOut &left_out) {
    for (size_t device = 0; device < process.primary.size(); ++device)
        world.contexts.push_back({process.primary[device], static_cast<int>(device), true, true});
    DRIVER_OK(cuCtxSetCurrent, process.primary[0]);
    world.streams = {{nullptr, 0, true, false}, {CU_STREAM_LEGACY, 0, true, false}, {CU_STREAM_PER_THREAD, 0, true, false}};
    world.codes = {{Code::RUNTIME, 0}, {Code::LIBRARY, -1, nullptr, process.library}};
    uint64_t base = mixed(mixed(world.seed + 1) + static_cast<uint64_t>(world.thread));
    size_t steps = 8 + Random{base}.below(24);
    for (world.step = 0; world.step < steps; ++world.step) {
        Random random{mixed(base + world.step + 1)};
        const Step &step = world.step < 4 ? STEPS[0] : some_step(random);
        uint64_t number = static_cast<uint64_t>(world.thread) * 1000 + world.step;
        if (left_out.steps.count(number) || left_out.names.count(step.name))
            continue;
        world.say("\n  %llu %s", static_cast<unsigned long long>(number), step.name);
        doing[world.thread] = step.name;
        // No thread may wait for a context while one of its streams is captured.
        if (step.run == capture || step.run == wait_in_graph) {
            std::unique_lock<std::shared_mutex> alone(process.capturing);
            step.run(world, random);
        } else {
            std::shared_lock<std::shared_mutex> together(process.capturing);
            step.run(world, random);
        }
    }
    doing[world.thread] = "its end";
    Random random{mixed(base)};
    std::shared_lock<std::shared_mutex> together(process.capturing);
    finish(world, random);
    doing[world.thread] = nullptr;
}

// Destroys the first device's primary context with memory still allocated in it. The next sequence gets a new one.
static void reset(Process &process, World &world, Random &random) {
    world.say("\n  reset");
    for (size_t count = random.below(3); count > 0; --count)
        allocate(world, random);
    settle(world);
    for (const Region &region : std::vector<Region>(world.regions))
        if (region.kind != Kind::Plain && region.kind != Kind::Pitched)
            release(world, random, region);
    settle(world);
    // The others end with the context.
    world.regions.clear();
    CUDA_OK(cudaDeviceReset());
    CUDA_OK(cudaFree(nullptr));
    CALL(cuDevicePrimaryCtxRetain, &process.primary[0], 0);
    CALL(cuCtxSetCurrent, process.primary[0]);
    settle(world);
}

// Leaves memory and unfinished work behind.
static void leave_behind(World &world, Random &random) {
    world.say("\n  left behind");
    for (size_t count = 1 + random.below(2); count > 0; --count)
        allocate(world, random);
    launch_on(world, random, 0, world.some_stream(random), false);
}

static bool is_followed_by_exec(uint64_t seed) { return Random{mixed(seed ^ 0xe8ec)}.chance(4); }

// Runs a sequence. Returns whether a new process has to run the rest.
static bool run_sequence(Process &process, const Settings &settings, uint64_t seed, bool is_last, const LeftOut &left_out) {
    doing_seed = seed;
    alarm(SECONDS_FOR_A_SEQUENCE);
    Random random{mixed(seed)};
    int threads = random.chance(12) ? static_cast<int>(2 + random.below(2)) : 1;
    std::vector<std::unique_ptr<World>> worlds;
    for (int thread = 0; thread < threads; ++thread)
        worlds.push_back(std::make_unique<World>(seed, thread, threads > 1, settings.destroys_pools_in_use != 0));
    std::vector<std::thread> others;
    for (int thread = 1; thread < threads; ++thread)
        others.emplace_back([&, thread] { run(process, *worlds[thread], left_out); });
    run(process, *worlds[0], left_out);
    for (std::thread &other : others)
        other.join();
    if (threads == 1 && random.chance(4))
        reset(process, *worlds[0], random);
    bool starts_anew = !worlds[0]->descriptors.empty();
    check_descriptors(*worlds[0]);
    if (!left_out.names.count("exec")) {
        starts_anew |= is_followed_by_exec(seed);
        if ((starts_anew || is_last) && threads == 1 && random.chance(60))
            leave_behind(*worlds[0], random);
    }
    std::printf("sequence %llu", static_cast<unsigned long long>(seed));
    uint64_t launches = 0;
    for (const auto &world : worlds) {
        std::fputs(world->text.c_str(), stdout);
        launches += world->launches;
    }
    std::printf("\nlaunches %llu\n", static_cast<unsigned long long>(launches));
    return starts_anew;
}

// The parts of a text between commas.
static std::vector<std::string> listed(const std::string &text) {
    std::vector<std::string> parts;
    for (size_t at = 0; at < text.size();) {
        size_t end = std::min(text.find(',', at), text.size());
        parts.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return parts;
}

int main(int argc, char **argv) {
    Settings settings;
    LeftOut left_out;
    for (int index = 1; index + 1 < argc; index += 2) {
        std::string option = argv[index];
        char *end = argv[index + 1];
        if (option == "--seed") {
            settings.seed = std::strtoull(end, &end, 10);
        } else if (option == "--count") {
            settings.count = std::strtoull(end, &end, 10);
        } else if (option == "--devices") {
            settings.devices = std::strtoull(end, &end, 10);
        } else if (option == "--destroy-pools-in-use") {
            settings.destroys_pools_in_use = std::strtoull(end, &end, 10);
        } else {
            std::string &text = option == "--skip"      ? settings.skipped
                                : option == "--without" ? settings.without
                                                        : settings.processes;
            text = end;
            end += text.size();
        }
        if (*end) {
            std::fprintf(stderr, "%s: %s is no number\n", argv[0], argv[index + 1]);
            return 64;
        }
    }
    for (const std::string &number : listed(settings.skipped))
        left_out.steps.insert(std::strtoull(number.c_str(), nullptr, 10));
    for (const std::string &name : listed(settings.without))
        left_out.names.insert(name);
    if (settings.processes != "one")
        return run_parts(settings);
    std::signal(SIGALRM, give_up);
    Process process;
    start(process, static_cast<int>(settings.devices));
    for (uint64_t at = 0; at < settings.count; ++at) {
        bool is_last = at + 1 == settings.count;
        bool starts_anew = run_sequence(process, settings, settings.seed + at, is_last, left_out);
        if (is_last || !starts_anew)
            continue;
        std::fflush(stdout);
        become(settings, settings.seed + at + 1, settings.count - at - 1);
    }
    return left_out.names.count("exec") ? 0 : end_process(Random{mixed(settings.seed + settings.count)}.below(6));
}
