// A program that closes every descriptor it did not open, as daemons do, and continues with its own files: `descriptors
// OUTPUT`. The file gets one line for each launch.
#include "check.cuh"

#include <fcntl.h>
#include <unistd.h>

__global__ void scale(int *data, int factor) { data[blockIdx.x * blockDim.x + threadIdx.x] *= factor; }

int main(int argc, char **argv) {
    if (argc != 2)
        return 64;
    std::vector<int> values(1 << 16, 3);
    DeviceArray<int> data(values);
    scale<<<256, 256>>>(data.get(), 2);
    CUDA_OK(cudaDeviceSynchronize());
    for (int number = 3; number < 1024; ++number)
        close(number);
    int files[8];
    for (int &file : files)
        file = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
    for (int factor = 3; factor < 6; ++factor) {
        scale<<<256, 256>>>(data.get(), factor);
        CUDA_OK(cudaDeviceSynchronize());
        if (write(files[0], "launched\n", 9) != 9)
            return 1;
    }
    printf("descriptors: ok\n");
    return 0;
}
