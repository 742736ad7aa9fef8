// `growing WHAT N`: allocates and frees N objects, and reports whether its memory has grown.
//     frees    buffers of 8 MiB by cudaFreeAsync, in a stream that is waited for
//     streams  the same with alternating streams, one of which is waited for only at the end
//     modules  modules of PTX, 1 MiB of text in each, with a kernel that runs once
#include "../driver.cuh"

#include <cstring>
#include <string>

static long resident_mib() {
    long pages = 0, resident = 0;
    FILE *file = std::fopen("/proc/self/statm", "r");
    if (!file || std::fscanf(file, "%ld %ld", &pages, &resident) != 2)
        std::exit(2);
    std::fclose(file);
    return resident / 256;
}

static long free_mib() {
    size_t left, total;
    CUDA_OK(cudaMemGetInfo(&left, &total));
    return static_cast<long>(left >> 20);
}

static void free_buffer(cudaStream_t stream) {
    void *buffer;
    CUDA_OK(cudaMalloc(&buffer, 8 << 20));
    CUDA_OK(cudaMemsetAsync(buffer, 1, 8 << 20, stream));
    CUDA_OK(cudaFreeAsync(buffer, stream));
}

static void run_module(int number, unsigned *result) {
    std::string name = "kernel_" + std::to_string(number);
    std::string text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry " + name +
                       "(.param .u64 p)\n{\n.reg .u64 %rd<3>;\n.reg .u32 %r<3>;\nld.param.u64 %rd1, [p];\n"
                       "cvta.to.global.u64 %rd2, %rd1;\nmov.u32 %r1, " +
                       std::to_string(number) + ";\nst.global.u32 [%rd2], %r1;\nret;\n}\n";
    for (int line = 0; line < 16384; ++line)
        text += "// " + std::string(60, static_cast<char>('a' + (number + line) % 26)) + "\n";
    CUmodule module;
    CUfunction function;
    DRIVER_OK(cuModuleLoadData, &module, text.c_str());
    DRIVER_OK(cuModuleGetFunction, &function, module, name.c_str());
    void *arguments[] = {&result};
    DRIVER_OK(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr);
    unsigned found;
    CUDA_OK(cudaMemcpy(&found, result, sizeof found, cudaMemcpyDeviceToHost));
    if (found != static_cast<unsigned>(number))
        std::exit(1);
    DRIVER_OK(cuModuleUnload, module);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 64;
    std::string what = argv[1];
    int count = std::atoi(argv[2]);
    unsigned *result;
    CUDA_OK(cudaMalloc(&result, 4096));
    cudaStream_t stream, other;
    CUDA_OK(cudaStreamCreate(&stream));
    CUDA_OK(cudaStreamCreate(&other));
    long resident = 0, available = 0;
    for (int round = 0; round < count; ++round) {
        if (round == count / 4)
            resident = resident_mib(), available = free_mib();
        if (what == "modules") {
            run_module(round, result);
            continue;
        }
        free_buffer(stream);
        if (what == "streams")
            free_buffer(other);
        CUDA_OK(cudaStreamSynchronize(stream));
    }
    CUDA_OK(cudaDeviceSynchronize());
    // A quarter of the amount taken since.
    long each = what == "modules" ? 1 : 8, most = each * count * 3 / 16;
    long grown = resident_mib() - resident, fallen = available - free_mib();
    // The CPU device uses this process's memory. The machine's free memory also depends on other processes.
    const char *device = std::getenv("MNEME_DEVICE");
    if (device && std::strcmp(device, "cpu") == 0)
        fallen = 0;
    if (grown > most || fallen > most)
        std::fprintf(stderr, "resident memory grew by %ld MiB, free memory fell by %ld MiB\n", grown, fallen);
    std::printf("growing: %s\n", grown > most || fallen > most ? "WRONG" : "ok");
    return grown > most || fallen > most;
}
