// Structures passed by value that contain addresses of ordinary host memory: one that the kernel reads (on devices that
// share the host's page tables), one that the kernel treats as a number, and one that it receives but never follows,
// which is present in one launch and absent in the next.
#include "check.cuh"

#include <cstdint>

struct View {
    int count;
    const long *values;
};

struct Tagged {
    std::uintptr_t owner;
    const long *values;
    int count;
};

__global__ void through(long *out, View view) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < view.count)
        out[i] = 2 * view.values[i];
}

__global__ void tagged(long *out, Tagged view) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < view.count)
        out[i] = 2 * view.values[i];
}

// If `count` is 1, the second pointer is arbitrary.
struct Views {
    const long *values[2];
    int count;
};

__global__ void partly(long *out, Views views, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 2 * views.values[views.count - 1][i];
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 1000)), device = 0, pageable = 0;
    CUDA_OK(cudaGetDevice(&device));
    CUDA_OK(cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, device));
    std::vector<long> x(n);
    for (int i = 0; i < n; ++i)
        x[i] = static_cast<long>(scramble(i));
    DeviceArray<long> copy(x), out(n);
    bool right = true;
    auto check = [&] {
        LAUNCH_OK();
        std::vector<long> result = out.download();
        for (int i = 0; i < n; ++i)
            right = right && result[i] == 2 * x[i];
        out.clear();
    };
    through<<<blocks_for(n, 128), 128>>>(out.get(), View{n, pageable ? x.data() : copy.get()});
    check();
    tagged<<<blocks_for(n, 128), 128>>>(out.get(), Tagged{reinterpret_cast<std::uintptr_t>(&x), copy.get(), n});
    check();
    partly<<<blocks_for(n, 128), 128>>>(out.get(), Views{{copy.get(), x.data()}, 1}, n);
    check();
    partly<<<blocks_for(n, 128), 128>>>(out.get(), Views{{copy.get(), nullptr}, 1}, n);
    check();
    return finish("pageable_parts", right, n);
}
