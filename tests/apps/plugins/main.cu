// Plug-ins with kernels: the program loads, unloads and reloads them (at the same address or another one), and replaces
// one by the other. Their kernels have the same name.
#include "../check.cuh"

#include <dlfcn.h>
#include <string>

class Plugin {
  public:
    explicit Plugin(const std::string &path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        if (handle_ == nullptr || (run_ = reinterpret_cast<Run *>(dlsym(handle_, "plugin_run"))) == nullptr) {
            std::fprintf(stderr, "%s\n", dlerror());
            std::exit(2);
        }
    }
    ~Plugin() { dlclose(handle_); }
    Plugin(const Plugin &) = delete;
    Plugin &operator=(const Plugin &) = delete;
    void run(long *device_values, int n) const { run_(device_values, n); }

  private:
    using Run = void(long *, int);
    void *handle_;
    Run *run_ = nullptr;
};

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 500));
    std::string folder = argv[0];
    folder.resize(folder.rfind('/') + 1);
    const std::string add = folder + "libplugins-add.so", multiply = folder + "libplugins-multiply.so";
    std::vector<long> expected(n);
    for (int i = 0; i < n; ++i)
        expected[i] = i;
    DeviceArray<long> values(expected);
    {
        Plugin first(add);
        first.run(values.get(), n);
        first.run(values.get(), n);
    }
    {
        Plugin second(multiply);
        second.run(values.get(), n);
    }
    {
        Plugin again(add);
        Plugin both(multiply);
        again.run(values.get(), n);
        both.run(values.get(), n);
    }
    for (int i = 0; i < n; ++i) {
        long value = expected[i];
        value = value + i + 1;
        value = value + i + 2;
        value = value * (i % 10) + 1;
        value = value + i + 1;
        expected[i] = value * (i % 10) + 1;
    }
    return finish("plugins", values.download() == expected, n);
}
