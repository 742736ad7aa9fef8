// A program whose plug-in is built anew while it runs: the first argument is where the plug-in is loaded from, each
// further one a file that takes that place, is loaded, run and unloaded. `FILE then OTHER` puts the other one there
// when FILE is loaded and has not run yet.
#include "../check.cuh"

#include <dlfcn.h>
#include <fstream>
#include <string>

static void put(const std::string &file, const std::string &place) {
    std::ifstream from(file, std::ios::binary);
    std::ofstream(place + ".new", std::ios::binary) << from.rdbuf();
    if (std::rename((place + ".new").c_str(), place.c_str()) != 0)
        std::exit(2);
}

int main(int argc, char **argv) {
    std::string place = argv[1];
    for (int at = 2; at < argc; ++at) {
        put(argv[at], place);
        void *plugin = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
        auto *run = plugin ? reinterpret_cast<int (*)()>(dlsym(plugin, "plugin_run")) : nullptr;
        if (!run) {
            std::fprintf(stderr, "%s\n", dlerror());
            return 2;
        }
        // The next one is installed before this one has launched anything.
        if (at + 1 < argc && std::string(argv[at + 1]) == "then") {
            put(argv[at + 2], place);
            at += 2;
        }
        std::printf("%d\n", run());
        std::fflush(stdout);
        dlclose(plugin);
    }
    return 0;
}
