// A table of function pointers in device memory, and a kernel that calls them. Also objects of a class that is private
// to this file, so its table of virtual functions has no visible name.
#include "check.cuh"

#include <new>

using Operation = long (*)(long);

__device__ long negate(long x) { return -x; }
__device__ long square(long x) { return x * x; }

__global__ void choose(Operation *table) {
    table[0] = negate;
    table[1] = square;
}

__global__ void apply(const Operation *table, long *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = table[i % 2](i);
}

namespace {
struct Base {
    __device__ virtual long value() const = 0;
};
struct Private : Base {
    long stored;
    __device__ explicit Private(long stored) : stored(stored) {}
    __device__ long value() const override { return stored; }
};
} // namespace

__global__ void create(void *place, Base **object) { *object = new (place) Private(7); }

__global__ void ask(Base *const *object, long *out) { *out = (*object)->value(); }

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 300));
    DeviceArray<Operation> table(2);
    DeviceArray<long> out(n);
    choose<<<1, 1>>>(table.get());
    apply<<<blocks_for(n, 64), 64>>>(table.get(), out.get(), n);
    LAUNCH_OK();
    bool right = true;
    std::vector<long> result = out.download();
    for (long i = 0; i < n; ++i)
        right = right && result[i] == (i % 2 ? i * i : -i);
    DeviceArray<Private *> place(2);
    DeviceArray<Base *> object(1);
    create<<<1, 1>>>(place.get(), object.get());
    ask<<<1, 1>>>(object.get(), out.get());
    LAUNCH_OK();
    right = right && out.download()[0] == 7;
    return finish("pointers", right, n);
}
