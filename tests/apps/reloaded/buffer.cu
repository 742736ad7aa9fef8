// Loads machine code from one static buffer, file by file: `one` launches each kernel before loading the next file,
// `all` launches all of them at the end.
#include "../driver.cuh"

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

static char buffer[1 << 20];

static CUmodule load(const char *path) {
    std::ifstream file(path, std::ios::binary);
    std::string image((std::istreambuf_iterator<char>(file)), {});
    if (image.empty() || image.size() > sizeof buffer)
        std::exit(2);
    std::memset(buffer, 0, sizeof buffer);
    std::memcpy(buffer, image.data(), image.size());
    CUmodule module;
    DRIVER_OK(cuModuleLoadData, &module, buffer);
    return module;
}

static void launch(CUfunction kernel, CUdeviceptr values) {
    unsigned long long seed = 7;
    unsigned count = 1024;
    void *arguments[] = {&values, &seed, &count};
    DRIVER_OK(cuLaunchKernel, kernel, 4, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr);
    std::vector<unsigned long long> host(count);
    DRIVER_OK(cuMemcpyDtoH, host.data(), values, count * sizeof(host[0]));
    std::printf("%llu\n", host[1]);
}

int main(int argc, char **argv) {
    CUdevice device;
    CUcontext context;
    CUdeviceptr values;
    DRIVER_OK(cuInit, 0);
    DRIVER_OK(cuDeviceGet, &device, 0);
    DRIVER_OK(cuDevicePrimaryCtxRetain, &context, device);
    DRIVER_OK(cuCtxSetCurrent, context);
    DRIVER_OK(cuMemAlloc, &values, 1024 * sizeof(unsigned long long));
    const bool all = std::strcmp(argv[1], "all") == 0;
    std::vector<CUfunction> kernels;
    for (int at = 2; at < argc; ++at) {
        CUfunction kernel;
        DRIVER_OK(cuModuleGetFunction, &kernel, load(argv[at]), "multiply");
        if (all)
            kernels.push_back(kernel);
        else
            launch(kernel, values);
    }
    for (CUfunction kernel : kernels)
        launch(kernel, values);
    return 0;
}
