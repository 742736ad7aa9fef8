// A kernel of Proteus's front ends, which compile code at run time that the program specifies as C++ text or by calls:
// the library loads machine code from its own memory and launches it through the driver. The argument names the file
// with the code.
#include "../driver.cuh"

#include <fstream>
#include <iterator>
#include <string>

int main(int argc, char **argv) {
    if (argc < 2)
        return 64;
    std::ifstream file(argv[1], std::ios::binary);
    std::string code(std::istreambuf_iterator<char>(file), {});
    size_t n = size_argument(argc - 1, argv + 1, 1000);
    std::vector<double> y(n, 1);
    DeviceArray<double> dy(y);

    CUmodule module;
    CUfunction kernel;
    DRIVER_OK(cuModuleLoadData, &module, code.data());
    DRIVER_OK(cuModuleGetFunction, &kernel, module, "fill");
    double *out = dy.get(), value = 3;
    void *arguments[] = {&out, &value, &n};
    DRIVER_OK(cuLaunchKernel, kernel, blocks_for(n, 128), 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr);
    LAUNCH_OK();
    y = dy.download();
    bool right = true;
    for (size_t i = 0; i < n; ++i)
        right = right && y[i] == 3.0 * i + 1;
    return finish("frontend", right, n);
}
