// Addresses in device variables: chains of variables that contain each other's addresses, a table of addresses in
// constant memory, variables local to device functions (one per template instance), and a ring of addresses. A replay
// is right only if all variables are at their recorded addresses.
#include "check.cuh"

struct Counter {
    int value;
    int *target;
};

__device__ int leaves[4] = {1, 2, 3, 4};
__device__ Counter counters[2] = {{10, &leaves[1]}, {20, &leaves[3]}};
__device__ Counter *chosen = &counters[1];
__device__ Counter **root = &chosen;
__constant__ int *const table[3] = {&leaves[0], &leaves[2], &counters[0].value};
struct Ring {
    Ring *next;
    int value;
};
__device__ Ring ring[3];
__device__ int *latest;

template <int STEP> __device__ int *ticket() {
    static __device__ int next = STEP;
    return &next;
}

__device__ int *calls() {
    static int count = 7;
    atomicAdd(&count, 1);
    return &count;
}

__global__ void statics(int *out, int rounds) {
    if (threadIdx.x != 0)
        return;
    Ring *at = ring;
    for (int round = 0; round < rounds; ++round) {
        atomicAdd((*root)->target, (*root)->value);
        *root = *root == &counters[0] ? &counters[1] : &counters[0];
        *table[round % 3] += round;
        *ticket<1>() += 1;
        *ticket<10>() += 10;
        latest = calls();
        at->value += round;
        at = at->next;
    }
    out[0] = *ticket<1>();
    out[1] = *ticket<10>();
    out[2] = *latest;
    for (int i = 0; i < 4; ++i)
        out[3 + i] = leaves[i];
    for (int i = 0; i < 3; ++i)
        out[7 + i] = ring[i].value;
    out[10] = counters[0].value;
}

int main(int argc, char **argv) {
    int rounds = static_cast<int>(size_argument(argc, argv, 100));
    DeviceArray<int> out(11);
    // A device variable's initialiser cannot form a ring.
    Ring *address = nullptr;
    CUDA_OK(cudaGetSymbolAddress(reinterpret_cast<void **>(&address), ring));
    const Ring linked[3] = {{address + 1, 0}, {address + 2, 0}, {address, 0}};
    CUDA_OK(cudaMemcpyToSymbol(ring, linked, sizeof linked));
    // The second launch starts from the result of the first one.
    statics<<<1, 32>>>(out.get(), rounds);
    statics<<<1, 32>>>(out.get(), rounds + 1);
    LAUNCH_OK();

    int leaf[4] = {1, 2, 3, 4}, ones = 1, tens = 10, count = 7, around[3] = {}, values[2] = {10, 20}, which = 1;
    int *const tabled[3] = {&leaf[0], &leaf[2], &values[0]};
    for (int launch = 0; launch < 2; ++launch) {
        for (int round = 0, at = 0; round < rounds + launch; ++round, at = (at + 1) % 3) {
            leaf[which == 1 ? 3 : 1] += values[which];
            which = 1 - which;
            *tabled[round % 3] += round;
            ++ones;
            tens += 10;
            ++count;
            around[at] += round;
        }
    }
    const int expected[11] = {ones, tens, count, leaf[0], leaf[1], leaf[2], leaf[3], around[0], around[1], around[2], values[0]};
    std::vector<int> result = out.download();
    return finish("statics", result == std::vector<int>(expected, expected + 11), rounds);
}
