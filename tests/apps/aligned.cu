// Structures of every alignment passed by value: alone, inside another one, in an array, and next to a pointer. Each
// kernel reports the layout and the contents of its copies.
#include "check.cuh"

template <int N> struct __attribute__((packed)) alignas(N) Aligned {
    float values[5];
};
template <int N> struct Nested {
    char first;
    Aligned<N> inner;
};
template <int N> struct Array {
    Aligned<N> elements[3];
};
template <int N> struct WithPointer {
    Aligned<N> before;
    int *counts;
};

__device__ int rest(const void *place, int n) { return static_cast<int>(reinterpret_cast<unsigned long long>(place) % n); }

template <int N>
__global__ void by_value(float *out, Aligned<N> one, Nested<N> nested, Array<N> array, WithPointer<N> pointer) {
    int t = threadIdx.x;
    array.elements[t % 3].values[t % 5] += t;
    float sum = one.values[t % 5] + nested.inner.values[(t + 1) % 5] + array.elements[t % 3].values[t % 5] + nested.first +
                pointer.before.values[t % 5];
    out[t] = sum + 1000 * (rest(&one, N) + rest(&nested.inner, N) + rest(&array.elements[t % 3], N));
    atomicAdd(pointer.counts, 1);
}

template <int N> void run(float *out, int *counts) {
    Aligned<N> one{{1, 2, 3, 4, 5}};
    Nested<N> nested{7, {{10, 20, 30, 40, 50}}};
    Array<N> array{{{{1, 1, 1, 1, 1}}, {{2, 2, 2, 2, 2}}, {{3, 3, 3, 3, 3}}}};
    WithPointer<N> pointer{{{5, 4, 3, 2, 1}}, counts};
    by_value<N><<<1, 32>>>(out, one, nested, array, pointer);
    LAUNCH_OK();
}

int main() {
    DeviceArray<float> out(32);
    DeviceArray<int> counts(std::vector<int>{0});
    out.clear();
    run<1>(out.get(), counts.get());
    run<2>(out.get(), counts.get());
    run<4>(out.get(), counts.get());
    run<8>(out.get(), counts.get());
    run<16>(out.get(), counts.get());
    run<32>(out.get(), counts.get());
    run<64>(out.get(), counts.get());
    run<128>(out.get(), counts.get());
    run<256>(out.get(), counts.get());
    return finish("aligned", out.download()[0] == 34 && counts.download()[0] == 9 * 32, 32);
}
