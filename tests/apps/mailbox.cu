// A buffer that another process writes continuously (CUDA IPC) while a kernel runs that does not use it.
#include "driver.cuh"
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

// Enough to outlast the other process's write even with few processors.
constexpr int rounds = 6000;

__global__ void churn(unsigned *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned value = values[i];
    for (int round = 0; round < rounds; ++round)
        value = value * 1664525u + 1013904223u;
    values[i] = value;
}

const size_t mail_bytes = 40000;

static int other(int in, int out) {
    CUipcMemHandle handle;
    if (read(in, &handle, sizeof handle) != sizeof handle)
        return 2;
    CUDA_OK(cudaFree(nullptr));
    CUdeviceptr mail = 0;
    DRIVER_OK(cuIpcOpenMemHandle, &mail, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    fcntl(in, F_SETFL, O_NONBLOCK);
    char end;
    // Until the other side hangs up.
    for (int value = 1; read(in, &end, 1) != 0; ++value) {
        // Values never repeat; otherwise the memory might look unchanged.
        DRIVER_OK(cuMemsetD32, mail, value, mail_bytes / sizeof value);
        CUDA_OK(cudaDeviceSynchronize());
        if (value == 1 && write(out, &end, 1) != 1)
            return 2;
    }
    DRIVER_OK(cuIpcCloseMemHandle, mail);
    return 0;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 100000));
    int there[2], back[2];
    if (pipe(there) != 0 || pipe(back) != 0)
        return 2;
    pid_t child = fork();
    if (child == 0) {
        close(there[1]);
        std::exit(other(there[0], back[1]));
    }
    close(there[0]);
    close(back[1]);
    unsigned expected = 0;
    for (int round = 0; round < rounds; ++round)
        expected = expected * 1664525u + 1013904223u;
    bool right;
    int status = 0;
    {
        DeviceArray<unsigned> values(n);
        DeviceArray<unsigned char> mail(mail_bytes);
        values.clear();
        mail.clear();
        CUDA_OK(cudaDeviceSynchronize());
        CUipcMemHandle handle;
        DRIVER_OK(cuIpcGetMemHandle, &handle, reinterpret_cast<CUdeviceptr>(mail.get()));
        char started;
        if (write(there[1], &handle, sizeof handle) != sizeof handle || read(back[0], &started, 1) != 1)
            return 2;
        churn<<<blocks_for(n, 128), 128>>>(values.get(), n);
        LAUNCH_OK();
        close(there[1]);
        right = waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        right = right && values.download().back() == expected;
    }
    return finish("mailbox", right, n);
}
