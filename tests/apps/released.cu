// Page-locked memory that the program unmaps or protects while it is registered. Kernels get pointers to it but do not
// follow them, so no access faults.
#include "check.cuh"

#include <csignal>
#include <sys/mman.h>
#include <unistd.h>

template <int> __global__ void add(long *out, const long *host, bool looks, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] += looks ? host[i] : i;
}

constexpr size_t BYTES = 1 << 20;

struct Registered {
    Registered() {
        start = static_cast<long *>(mmap(nullptr, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        CUDA_OK(cudaHostRegister(start, BYTES, cudaHostRegisterDefault));
        for (size_t i = 0; i < BYTES / sizeof *start; ++i)
            start[i] = 3;
    }
    ~Registered() {
        CUDA_OK(cudaHostUnregister(start));
        // Another mapping may have taken its place since.
        if (mapped)
            munmap(start, BYTES);
    }
    long *start;
    bool mapped = true;
};

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 1000));
    std::signal(SIGSEGV, [](int) {
        static_cast<void>(!write(1, "a fault\n", 8));
        _exit(3);
    });
    DeviceArray<long> out(n);
    out.clear();
    unsigned blocks = blocks_for(n, 128);
    {
        Registered whole;
        add<0><<<blocks, 128>>>(out.get(), whole.start, true, n);
        LAUNCH_OK();
    }
    {
        Registered gone;
        munmap(gone.start, BYTES);
        gone.mapped = false;
        add<1><<<blocks, 128>>>(out.get(), gone.start, false, n);
        LAUNCH_OK();
        DeviceArray<long *> table(std::vector<long *>{gone.start + 1000});
        add<2><<<blocks, 128>>>(out.get(), nullptr, false, n);
        LAUNCH_OK();
    }
    {
        Registered guarded;
        mprotect(guarded.start, BYTES, PROT_NONE);
        add<3><<<blocks, 128>>>(out.get(), guarded.start, false, n);
        LAUNCH_OK();
    }
    std::vector<long> sums = out.download();
    bool right = true;
    for (int i = 0; i < n; ++i)
        right = right && sums[i] == 3 + 3L * i;
    return finish("released", right, n);
}
