// out += in over K * 10000 elements: `vecadd K [long|int|double]`. With K = 1024 that is 40000 blocks of 256 threads on two
// buffers of 82 MB. The grid-stride loop keeps the result right under any launch shape, so that the tuner may vary it.
#include "check.cuh"

#include <cstring>

template <typename T> __global__ void vecadd(T *out, const T *in, size_t n) {
    size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
        out[i] += in[i];
}

template <typename T> static int run(size_t n) {
    std::vector<T> out(n), in(n);
    for (size_t i = 0; i < n; ++i) {
        out[i] = static_cast<T>(i % 1000003);
        in[i] = static_cast<T>(2 * i % 999983);
    }
    DeviceArray<T> device_out(out), device_in(in);
    vecadd<T><<<blocks_for(n, 256), 256>>>(device_out.get(), device_in.get(), n);
    LAUNCH_OK();
    std::vector<T> result = device_out.download();
    bool right = true;
    for (size_t i = 0; i < n; ++i)
        right = right && result[i] == static_cast<T>(out[i] + in[i]);
    return finish("vecadd", right, n);
}

int main(int argc, char **argv) {
    size_t n = size_argument(argc, argv, 4) * 10000;
    const char *type = argc > 2 ? argv[2] : "long";
    if (std::strcmp(type, "long") == 0)
        return run<long>(n);
    if (std::strcmp(type, "int") == 0)
        return run<int>(n);
    if (std::strcmp(type, "double") == 0)
        return run<double>(n);
    std::fprintf(stderr, "vecadd: the type has to be long, int or double, not '%s'\n", type);
    return 64;
}
