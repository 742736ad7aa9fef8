// Steps of virtual memory management: reservations, memory mapped into them, and access rights.
#pragma once

#include "memory.cuh"

constexpr size_t MOST_PAGES = 3;

inline void reserve(World &world, Random &random) {
    if (world.reservations.size() >= 2)
        return;
    size_t pages = 1 + random.below(MOST_PAGES);
    CUdeviceptr base = 0;
    if (CALL(cuMemAddressReserve, &base, pages * World::page(), 0, 0, 0) != CUDA_SUCCESS)
        return;
    world.say(" v%zu %zu", world.reservations.size(), pages);
    world.reservations.push_back({base, pages, std::vector<int>(pages, -1)});
}

inline CUmemAccessDesc access_for(int device, CUmemAccess_flags flags) { return {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags}; }

// Memory of a device at a free page of a reservation, accessible to one device or to all.
inline void map(World &world, Random &random) {
    if (world.reservations.empty())
        return reserve(world, random);
    size_t index = random.below(world.reservations.size());
    Reservation &reservation = world.reservations[index];
    size_t slot = random.below(reservation.pages);
    if (reservation.mapped[slot] >= 0)
        return;
    size_t page = World::page();
    CUdeviceptr address = reservation.base + slot * page;
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, world.device()};
    CUmemGenericAllocationHandle handle = 0;
    unsigned granted = 1u << world.device();
    CUresult status = CUDA_SUCCESS;
    bool early = random.chance(60);
    auto calls = [&] {
        status = CALL(cuMemCreate, &handle, page, &properties, 0);
        if (status != CUDA_SUCCESS)
            return;
        status = CALL(cuMemMap, address, page, 0, handle, 0);
        world.say(" v%zu+%zu", index, slot);
        if (early)
            CALL(cuMemRelease, handle);
        std::vector<CUmemAccessDesc> accesses = {access_for(world.device(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE)};
        for (const Context &other : world.contexts) {
            if (!other.primary || granted >> other.device & 1 || random.chance(50))
                continue;
            accesses.push_back(access_for(other.device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
            granted |= 1u << other.device;
        }
        CALL(cuMemSetAccess, address, page, accesses.data(), accesses.size());
    };
    if (random.chance(80))
        calls();
    else
        on_another_thread(world, random.chance(50), calls);
    if (status == CUDA_SUCCESS) {
        Region &region = add_region(world, Kind::Mapped, address, some_words(random));
        region.granted = granted;
        region.reservation = static_cast<int>(index);
        reservation.mapped[slot] = region.number;
        fill(world, random, region);
    }
    if (!early && handle)
        CALL(cuMemRelease, handle);
}

inline void unmap(World &world, int number) {
    Region &region = world.region(number);
    Reservation &reservation = world.reservations[region.reservation];
    wait_for(world, region);
    CALL(cuMemUnmap, region.address, World::page());
    world.say(" r%d", number);
    for (int &mapped : reservation.mapped)
        if (mapped == number)
            mapped = -1;
    for (size_t index = 0; index < world.regions.size(); ++index)
        if (world.regions[index].number == number)
            world.regions.erase(world.regions.begin() + static_cast<long>(index));
}

inline void unmap_some(World &world, Random &random) {
    std::vector<int> all = world.numbers([&](const Region &region) { return region.kind == Kind::Mapped; });
    if (!all.empty()) {
        settle(world);
        unmap(world, random.among(all));
    }
}

// Removes the access to a mapping, or restores it.
inline void change_access(World &world, Random &random) {
    std::vector<int> all = world.numbers([&](const Region &region) { return region.kind == Kind::Mapped; });
    if (all.empty())
        return;
    Region &region = world.region(random.among(all));
    settle(world);
    wait_for(world, region);
    int device = world.contexts[random.below(world.contexts.size())].device;
    unsigned bit = 1u << device;
    bool take = region.granted & bit;
    CUmemAccessDesc access = access_for(device, take ? CU_MEM_ACCESS_FLAGS_PROT_NONE : CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (CALL(cuMemSetAccess, region.address, World::page(), &access, 1) == CUDA_SUCCESS)
        region.granted = take ? region.granted & ~bit : region.granted | bit;
    world.say(" r%d d%d %s", region.number, device, take ? "none" : "all");
    unsigned long long flags = 0;
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    if (CALL(cuMemGetAccess, &flags, &location, region.address) == CUDA_SUCCESS)
        world.say(" %llu", flags);
}

// Access to a whole reservation at once, whichever devices its parts belong to.
inline void grant_all(World &world, Random &random) {
    if (world.reservations.empty())
        return;
    Reservation &reservation = world.reservations[random.below(world.reservations.size())];
    for (int mapped : reservation.mapped)
        if (mapped < 0)
            return;
    settle(world);
    int device = world.device();
    CUmemAccessDesc access = access_for(device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (CALL(cuMemSetAccess, reservation.base, reservation.pages * World::page(), &access, 1) == CUDA_SUCCESS)
        for (int mapped : reservation.mapped)
            world.region(mapped).granted |= 1u << device;
}

inline void map_wrongly(World &world, Random &random) {
    if (world.reservations.empty())
        return;
    Reservation &reservation = world.reservations[random.below(world.reservations.size())];
    size_t page = World::page();
    switch (random.below(4)) {
    case 0: CALL(cuMemMap, reservation.base, page, 0, 0, 0); break;
    case 1: CALL(cuMemUnmap, reservation.base, page / 2); break;
    case 2: {
        CUmemAccessDesc access = access_for(world.device(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        if (reservation.mapped[0] < 0)
            CALL(cuMemSetAccess, reservation.base, page, &access, 1);
        break;
    }
    default: CALL(cuMemAddressFree, reservation.base, page / 2);
    }
}
