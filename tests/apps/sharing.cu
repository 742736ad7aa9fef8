// Two processes share one's memory (CUDA IPC): the other one opens, reads and writes a small buffer, a buffer after it
// and a large one, at different addresses. Functions are looked up by name, as in frameworks.
#include "driver.cuh"
#include <sys/wait.h>
#include <unistd.h>

__global__ void fill(int *data, int n, int scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] = scale * i;
}

__global__ void mix(const int *small, int *middle, int *large, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        middle[i] += small[i];
        large[i] = middle[i] - large[i];
    }
}

struct Message {
    CUipcMemHandle small, middle, large;
};

static void expect(bool right, const char *what) {
    if (!right) {
        std::fprintf(stderr, "%s\n", what);
        std::exit(1);
    }
}

static CUdeviceptr opened(CUipcMemHandle handle, size_t bytes) {
    CUdeviceptr address = 0, base = 0;
    size_t size = 0;
    DRIVER_OK(cuIpcOpenMemHandle, &address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    DRIVER_OK(cuMemGetAddressRange, &base, &size, address + 4);
    expect(base == address && size >= bytes, "what is opened has not the size of what is shared");
    return address;
}

static int other(int in, int out, int n) {
    Message message;
    expect(read(in, &message, sizeof message) == sizeof message, "no message");
    CUDA_OK(cudaFree(nullptr));
    size_t bytes = n * sizeof(int);
    CUdeviceptr small = opened(message.small, bytes), middle = opened(message.middle, bytes), large = opened(message.large, bytes);
    expect(opened(message.small, bytes) == small, "opened twice, it has two addresses");
    DRIVER_OK(cuIpcCloseMemHandle, small);
    mix<<<blocks_for(n, 128), 128>>>(reinterpret_cast<int *>(small), reinterpret_cast<int *>(middle), reinterpret_cast<int *>(large), n);
    LAUNCH_OK();
    for (CUdeviceptr address : {small, middle, large})
        DRIVER_OK(cuIpcCloseMemHandle, address);
    expect(DRIVER(cuIpcCloseMemHandle)(small) != CUDA_SUCCESS, "closed twice");
    char done = 1;
    return write(out, &done, 1) == 1 ? 0 : 2;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 3000));
    int there[2], back[2];
    if (pipe(there) != 0 || pipe(back) != 0)
        return 2;
    pid_t child = fork();
    if (child == 0) {
        close(there[1]);
        std::exit(other(there[0], back[1], n));
    }
    close(there[0]);
    close(back[1]);
    {
        DeviceArray<int> small(n), middle(n), large(20 << 20);
        fill<<<blocks_for(n, 128), 128>>>(small.get(), n, 2);
        fill<<<blocks_for(n, 128), 128>>>(middle.get(), n, 3);
        fill<<<blocks_for(n, 128), 128>>>(large.get(), n, 1);
        LAUNCH_OK();
        Message message;
        DRIVER_OK(cuIpcGetMemHandle, &message.small, reinterpret_cast<CUdeviceptr>(small.get()));
        DRIVER_OK(cuIpcGetMemHandle, &message.middle, reinterpret_cast<CUdeviceptr>(middle.get()));
        DRIVER_OK(cuIpcGetMemHandle, &message.large, reinterpret_cast<CUdeviceptr>(large.get()));
        CUdeviceptr own = 0;
        expect(DRIVER(cuIpcOpenMemHandle)(&own, message.large, 1) != CUDA_SUCCESS, "a process opens its own memory");
        char done = 0;
        bool told = write(there[1], &message, sizeof message) == sizeof message && read(back[0], &done, 1) == 1;
        expect(told, "the other process has not answered");
        std::vector<int> middle_host = middle.download(), large_host = large.download();
        for (int i = 0; i < n; ++i)
            expect(middle_host[i] == 5 * i && large_host[i] == 4 * i, "the other process' values are wrong");
    }
    int status = 0;
    bool right = waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return finish("sharing", right, n);
}
