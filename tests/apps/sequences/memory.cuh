// Steps that allocate, fill, copy, query, read back and free memory.
#pragma once

#include "world.cuh"

#include <sys/mman.h>

inline size_t some_words(Random &random) {
    switch (random.below(10)) {
    case 0: return 1 + random.below(16);
    case 1: return 16384 + random.below(3);
    case 2: return 30000 + random.below(40000);
    case 3: return 1024;
    default: return 64 + random.below(2000);
    }
}

// Whole pages.
inline size_t registered_bytes(size_t words) { return (words * sizeof(Word) + 4095) / 4096 * 4096; }

// Writes words into a region in one of several ways.
inline void put(World &world, Random &random, Region &region, size_t at, const Word *words, size_t count) {
    size_t bytes = count * sizeof(Word);
    CUdeviceptr to = region.address + at * sizeof(Word);
    std::vector<Word> &source = world.buffer(count);
    std::memcpy(source.data(), words, bytes);
    if (world.is_hosts(region) && !world.shares_process && random.chance(40)) {
        // A device may not access managed memory while the host does.
        settle(world);
        wait_for(world, region);
        std::memcpy(reinterpret_cast<void *>(to), words, bytes);
        world.say("\n    host writes");
        return;
    }
    if (region.kind == Kind::Host || region.kind == Kind::Registered) {
        wait_for(world, region);
        CALL(cuMemcpy, to, reinterpret_cast<CUdeviceptr>(source.data()), bytes);
        return;
    }
    int stream = world.some_stream(random);
    // A waiting copy of pageable memory returns after reading it. Non-blocking streams do not wait for its end.
    switch (random.below(5)) {
    case 0:
        wait_for(world, region);
        CALL(cuMemcpyHtoD, to, source.data(), bytes);
        settle(world);
        break;
    case 1:
        wait_for(world, region);
        CALL(cuMemcpy, to, reinterpret_cast<CUdeviceptr>(source.data()), bytes);
        settle(world);
        break;
    case 2:
        use_on(world, random, region, stream);
        CALL(cuMemcpyAsync, to, reinterpret_cast<CUdeviceptr>(source.data()), bytes, world.streams[stream].handle);
        break;
    case 3:
        if (count % 4 == 0) {
            wait_for(world, region);
            CUDA_MEMCPY2D copy = {};
            copy.srcMemoryType = CU_MEMORYTYPE_HOST;
            copy.srcHost = source.data();
            copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
            copy.dstDevice = to;
            copy.srcPitch = copy.dstPitch = copy.WidthInBytes = bytes / 4;
            copy.Height = 4;
            CALL(cuMemcpy2D, &copy);
            settle(world);
            break;
        }
        [[fallthrough]];
    default:
        use_on(world, random, region, stream);
        CALL(cuMemcpyHtoDAsync, to, source.data(), bytes, world.streams[stream].handle);
    }
}

// Gives a region unique contents.
inline void fill(World &world, Random &random, Region &region) {
    std::vector<Word> words(region.words);
    for (size_t index = 0; index < words.size(); ++index)
        words[index] = static_cast<Word>(mixed(world.seed * 0x10001 + static_cast<uint64_t>(region.number) * 0x1000003 + world.step * 77 + index));
    put(world, random, region, 0, words.data(), words.size());
    region.holds_addresses = false;
}

inline Region &add_region(World &world, Kind kind, CUdeviceptr address, size_t words) {
    Region region = {};
    region.number = world.regions_made++;
    region.kind = kind;
    region.address = address;
    region.words = words;
    region.context = world.current;
    world.regions.push_back(region);
    world.say(" r%d %s %zu", region.number, KIND_NAMES[static_cast<int>(kind)], words);
    return world.regions.back();
}

inline void allocate(World &world, Random &random) {
    size_t words = some_words(random), bytes = words * sizeof(Word) + random.below(4);
    CUdeviceptr address = 0;
    // Pools and memory with delayed release belong to primary contexts, which no sequence destroys.
    Kind kind = static_cast<Kind>(random.below(world.context().primary ? 7 : 2));
    switch (kind) {
    case Kind::Plain:
        if (CALL(cuMemAlloc, &address, bytes) == CUDA_SUCCESS)
            fill(world, random, add_region(world, kind, address, words));
        break;
    case Kind::Pitched: {
        size_t pitch = 0, rows = 1 + random.below(5), width = 4 * (1 + random.below(300));
        unsigned element = 4u << random.below(3);
        if (CALL(cuMemAllocPitch, &address, &pitch, width, rows, element) == CUDA_SUCCESS) {
            world.say(" pitch %zu", pitch);
            fill(world, random, add_region(world, kind, address, pitch * rows / sizeof(Word)));
        }
        break;
    }
    case Kind::OnStream: {
        int stream = world.some_stream(random);
        if (CALL(cuMemAllocAsync, &address, bytes, world.streams[stream].handle) == CUDA_SUCCESS) {
            Region &region = add_region(world, kind, address, words);
            region.stream = stream;
            fill(world, random, region);
        }
        break;
    }
    case Kind::FromPool: {
        std::vector<Pool *> usable;
        for (Pool &pool : world.pools)
            if (pool.alive && pool.granted >> world.device() & 1)
                usable.push_back(&pool);
        if (usable.empty())
            return;
        Pool &pool = *random.among(usable);
        int stream = world.some_stream(random);
        if (CALL(cuMemAllocFromPoolAsync, &address, bytes, pool.handle, world.streams[stream].handle) == CUDA_SUCCESS) {
            world.say(" p%d", pool.number);
            Region &region = add_region(world, kind, address, words);
            region.stream = stream;
            region.granted = pool.granted;
            region.pool = pool.number;
            fill(world, random, region);
        }
        break;
    }
    case Kind::Managed:
        if (CALL(cuMemAllocManaged, &address, bytes, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS)
            fill(world, random, add_region(world, kind, address, words));
        break;
    case Kind::Host: {
        void *host = nullptr;
        CUresult status = random.chance(40) ? CALL(cuMemAllocHost, &host, bytes)
                                            : CALL(cuMemHostAlloc, &host, bytes, static_cast<unsigned>(random.below(4)));
        if (status == CUDA_SUCCESS)
            fill(world, random, add_region(world, kind, reinterpret_cast<CUdeviceptr>(host), words));
        break;
    }
    case Kind::Registered: {
        size_t pages = registered_bytes(words);
        void *host = mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (host == MAP_FAILED)
            std::exit(2);
        // For all contexts, because the sequence may have several.
        unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | (random.chance(50) ? CU_MEMHOSTREGISTER_DEVICEMAP : 0);
        CUresult status = CALL(cuMemHostRegister, host, pages, flags);
        if (status != CUDA_SUCCESS || CALL(cuMemHostGetDevicePointer, &address, host, 0) != CUDA_SUCCESS)
            return;
        // If the device has a different address for it, the host's address does not belong to the region.
        world.say(" %s", address == reinterpret_cast<CUdeviceptr>(host) ? "same" : "another");
        Region &region = add_region(world, kind, reinterpret_cast<CUdeviceptr>(host), words);
        region.host = host;
        fill(world, random, region);
        break;
    }
    default: break;
    }
}

inline void refill(World &world, Random &random) {
    std::vector<int> all = world.numbers([&](const Region &region) { return world.is_reachable(region); });
    if (!all.empty())
        fill(world, random, world.region(random.among(all)));
}

// A hash of a region's contents, read back in one of several ways.
inline void read_back(World &world, Random &random, Region &region) {
    std::vector<Word> &words = world.buffer(region.words);
    size_t bytes = region.words * sizeof(Word);
    switch (random.below(world.is_hosts(region) ? 4 : 3)) {
    case 0:
        wait_for(world, region);
        CALL(cuMemcpy, reinterpret_cast<CUdeviceptr>(words.data()), region.address, bytes);
        break;
    case 1: {
        int stream = world.some_stream(random);
        use_on(world, random, region, stream);
        CALL(cuMemcpyAsync, reinterpret_cast<CUdeviceptr>(words.data()), region.address, bytes, world.streams[stream].handle);
        wait_for(world, region);
        break;
    }
    case 2:
        wait_for(world, region);
        CALL(cuMemcpyDtoH, words.data(), region.address, bytes);
        break;
    default:
        settle(world);
        wait_for(world, region);
        std::memcpy(words.data(), reinterpret_cast<const void *>(region.address), bytes);
    }
    uint64_t hash = 0;
    for (Word word : words)
        hash = mixed(hash + word);
    world.say(" r%d = %016llx", region.number, static_cast<unsigned long long>(hash));
}

inline void read_some(World &world, Random &random) {
    std::vector<int> all = world.data(random, 1);
    if (!all.empty())
        read_back(world, random, world.region(all[0]));
}

// Between two regions, or a fill of a part of one.
inline void copy(World &world, Random &random) {
    std::vector<int> all = world.data(random, 2);
    if (all.size() < 2)
        return;
    Region &to = world.region(all[0]), &from = world.region(all[1]);
    size_t words = 1 + random.below(std::min(to.words, from.words)), bytes = words * sizeof(Word);
    CUdeviceptr target = to.address + random.below(to.words - words + 1) * sizeof(Word);
    CUdeviceptr source = from.address + random.below(from.words - words + 1) * sizeof(Word);
    int stream = world.some_stream(random);
    CUstream handle = world.streams[stream].handle;
    bool own_memory = !world.is_hosts(to) && !world.is_hosts(from);
    unsigned way = static_cast<unsigned>(random.below(9));
    bool waits = way < 4;
    if (waits) {
        wait_for(world, to);
        wait_for(world, from);
    } else {
        use_on(world, random, to, stream);
        if (way < 6)
            use_on(world, random, from, stream);
    }
    switch (way) {
    case 0:
        if (own_memory) {
            CALL(cuMemcpyDtoD, target, source, bytes);
            break;
        }
        [[fallthrough]];
    case 1: CALL(cuMemcpy, target, source, bytes); break;
    case 2: CALL(cuMemsetD32, target, static_cast<Word>(random.next()), words); break;
    case 3: CALL(cuMemsetD8, target, static_cast<unsigned char>(random.next()), bytes); break;
    case 4:
        if (own_memory) {
            CALL(cuMemcpyDtoDAsync, target, source, bytes, handle);
            break;
        }
        [[fallthrough]];
    case 5: CALL(cuMemcpyAsync, target, source, bytes, handle); break;
    case 6: CALL(cuMemsetD16Async, target, static_cast<unsigned short>(random.next()), 2 * words, handle); break;
    case 7: CALL(cuMemsetD2D32Async, target, words * sizeof(Word), static_cast<Word>(random.next()), words, 1, handle); break;
    default: CALL(cuMemsetD32Async, target, static_cast<Word>(random.next()), words, handle);
    }
    // Work that a synchronous call started on the driver's stream ends before anything else starts.
    if (waits)
        settle(world);
}

// The driver's description of an address.
inline void ask(World &world, Random &random) {
    if (world.regions.empty())
        return;
    Region &region = world.regions[random.below(world.regions.size())];
    CUdeviceptr address = region.address + random.below(region.words) * sizeof(Word), base = 0;
    size_t bytes = 0, total = 0;
    switch (random.below(4)) {
    case 0:
        if (CALL(cuMemGetAddressRange, &base, &bytes, address) == CUDA_SUCCESS)
            world.say(" %s %zu", world.place(base).c_str(), bytes);
        break;
    case 1:
        if (CALL(cuMemGetInfo, &bytes, &total) == CUDA_SUCCESS)
            world.say(" %s", bytes <= total && total > 0 ? "fits" : "nonsense");
        break;
    case 2: {
        static const CUpointer_attribute NUMBERS[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                                      CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_MAPPED};
        for (CUpointer_attribute attribute : NUMBERS) {
            int value = 0;
            if (CALL(cuPointerGetAttribute, &value, attribute, address) == CUDA_SUCCESS)
                world.say(" %d:%d", static_cast<int>(attribute), value);
        }
        static const CUpointer_attribute PLACES[] = {CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                                     CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
        for (CUpointer_attribute attribute : PLACES) {
            CUdeviceptr value = 0;
            if (CALL(cuPointerGetAttribute, &value, attribute, address) == CUDA_SUCCESS)
                world.say(" %d:%s", static_cast<int>(attribute), world.place(value).c_str());
        }
        if (CALL(cuPointerGetAttribute, &bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) == CUDA_SUCCESS)
            world.say(" %zu", bytes);
        break;
    }
    default: {
        CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                            CU_POINTER_ATTRIBUTE_CONTEXT};
        unsigned type = 0;
        CUdeviceptr pointer = 0;
        CUcontext context = nullptr;
        void *values[] = {&type, &pointer, &bytes, &context};
        CALL(cuPointerGetAttributes, 4, attributes, values, address);
        world.say(" %u %s %zu", type, world.place(pointer).c_str(), bytes);
        for (size_t index = 0; index < world.contexts.size(); ++index)
            if (context == world.contexts[index].handle)
                world.say(" c%zu", index);
    }
    }
}

// Frees a region. The caller has work on it in progress only on its own stream.
inline void release(World &world, Random &random, Region region) {
    world.say("\n   - r%d", region.number);
    bool on_stream = region.kind == Kind::OnStream || region.kind == Kind::FromPool;
    int stream = world.some_stream(random);
    if (on_stream && random.chance(75)) {
        use_on(world, random, region, stream);
        CALL(cuMemFreeAsync, region.address, world.streams[stream].handle);
    } else {
        wait_for(world, region);
        if (region.kind == Kind::Host) {
            CALL(cuMemFreeHost, reinterpret_cast<void *>(region.address));
        } else if (region.kind == Kind::Registered) {
            CALL(cuMemHostUnregister, region.host);
            munmap(region.host, registered_bytes(region.words));
        } else {
            CALL(cuMemFree, region.address);
        }
    }
    for (size_t index = 0; index < world.regions.size(); ++index)
        if (world.regions[index].number == region.number)
            world.regions.erase(world.regions.begin() + static_cast<long>(index));
}

inline bool is_freed_here(const World &world, const Region &region) {
    const Context &owner = world.contexts[region.context];
    return region.kind != Kind::Mapped && (region.context == world.current || (owner.primary && world.context().primary && owner.device == world.device()));
}

inline void free_some(World &world, Random &random) {
    std::vector<int> all = world.numbers([&](const Region &region) { return is_freed_here(world, region); });
    if (all.empty())
        return;
    Region region = world.region(random.among(all));
    // A thread has its own stream of that name.
    if (random.chance(80) || (region.stream >= 0 && world.streams[region.stream].handle == CU_STREAM_PER_THREAD))
        return release(world, random, region);
    on_another_thread(world, true, [&] {
        settle(world);
        release(world, random, region);
        settle(world);
    });
}

// Invalid frees, which the driver refuses. No other thread may allocate meanwhile.
inline void free_wrongly(World &world, Random &random) {
    if (world.regions.empty() || world.shares_process)
        return;
    Region region = world.regions[random.below(world.regions.size())];
    settle(world);
    switch (random.below(6)) {
    case 0: CALL(cuMemFree, 0); break;
    case 1:
        if (region.words > 1 && region.kind == Kind::Plain)
            CALL(cuMemFree, region.address + sizeof(Word));
        break;
    case 2:
        if (region.kind == Kind::Host || region.kind == Kind::Registered)
            CALL(cuMemFree, region.address);
        break;
    case 3:
        if (region.kind == Kind::Plain || region.kind == Kind::Pitched)
            CALL(cuMemFreeHost, reinterpret_cast<void *>(region.address));
        break;
    case 4:
        if ((region.kind == Kind::Plain || region.kind == Kind::Pitched) && is_freed_here(world, region)) {
            release(world, random, region);
            CALL(cuMemFree, region.address);
        }
        break;
    default: {
        int local = 0;
        CALL(cuMemHostUnregister, &local);
    }
    }
}

// Requests that cannot succeed.
inline void allocate_wrongly(World &world, Random &random) {
    CUdeviceptr address = 0;
    size_t pitch = 0;
    switch (random.below(5)) {
    case 0: CALL(cuMemAlloc, &address, 0); break;
    case 1: CALL(cuMemAlloc, &address, size_t{1} << 50); break;
    case 2: CALL(cuMemAllocPitch, &address, &pitch, 16, 0, 4); break;
    case 3: CALL(cuMemAllocPitch, &address, &pitch, 16, 4, 3); break;
    default: CALL(cuMemAlloc, nullptr, 16);
    }
}

inline void make_pool(World &world, Random &random) {
    if (!world.context().primary || world.pools.size() >= 3)
        return;
    CUmemPoolProps properties = {};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = world.device();
    Pool pool = {nullptr, world.device(), 1u << world.device(), true, static_cast<int>(world.pools.size())};
    if (CALL(cuMemPoolCreate, &pool.handle, &properties) != CUDA_SUCCESS)
        return;
    world.say(" p%d", pool.number);
    if (random.chance(30)) {
        uint64_t threshold = 1 << 20;
        CALL(cuMemPoolSetAttribute, pool.handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
    }
    for (const Context &other : world.contexts) {
        if (other.device == pool.device || !other.primary || random.chance(50))
            continue;
        CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, other.device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        if (CALL(cuMemPoolSetAccess, pool.handle, &access, 1) == CUDA_SUCCESS)
            pool.granted |= 1u << other.device;
    }
    world.pools.push_back(pool);
}

// With or without allocations that outlive it.
inline void destroy_pool(World &world, Random &random) {
    for (Pool &pool : world.pools) {
        auto is_from_it = [&](const Region &region) { return region.pool == pool.number; };
        if (!world.destroys_pools_in_use && !world.numbers(is_from_it).empty())
            continue;
        if (!pool.alive || pool.device != world.device() || !random.chance(60))
            continue;
        settle(world);
        if (random.chance(30))
            CALL(cuMemPoolTrimTo, pool.handle, 0);
        CALL(cuMemPoolDestroy, pool.handle);
        world.say(" p%d", pool.number);
        pool.alive = false;
        return;
    }
}
