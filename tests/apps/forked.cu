// A child forked from a process that has used the device, which applications do by mistake: its calls fail, and its
// parent's memory stays unchanged.
#include "check.cuh"

#include <sys/wait.h>
#include <unistd.h>

__global__ void add(int *value) { atomicAdd(value, 1); }

int main() {
    DeviceArray<int> value(1);
    value.clear();
    add<<<10, 10>>>(value.get());
    LAUNCH_OK();
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        add<<<10, 10>>>(value.get());
        int other = 7;
        cudaError_t launched = cudaGetLastError();
        cudaError_t copied = cudaMemcpy(value.get(), &other, sizeof other, cudaMemcpyHostToDevice);
        _exit(launched == cudaErrorInitializationError && copied == cudaErrorInitializationError ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    add<<<10, 10>>>(value.get());
    LAUNCH_OK();
    return finish("forked", WIFEXITED(status) && WEXITSTATUS(status) == 0 && value.download()[0] == 200, 2);
}
