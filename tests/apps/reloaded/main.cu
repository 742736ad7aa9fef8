// A program whose plug-in is rebuilt while it runs: the first argument is the plug-in's path. Each further argument is
// a file that is copied there, loaded, run and unloaded. `FILE then OTHER` copies OTHER there after FILE is loaded, but
// before it has run.
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
        // Installs the next file before this one's first launch.
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
