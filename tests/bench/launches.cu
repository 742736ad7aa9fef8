// `launches [N]`: N equal launches of an empty kernel (1000000). Prints nanoseconds per launch, the best of five parts,
// and the seconds from the start of `main` to the first launch.
#include "../apps/check.cuh"

#include <algorithm>
#include <chrono>

__global__ void empty(int) {}

int main(int argc, char **argv) {
    using clock = std::chrono::steady_clock;
    auto start = clock::now();
    size_t n = size_argument(argc, argv, 1000000) / 5;
    empty<<<1, 1>>>(0);
    LAUNCH_OK();
    double first = std::chrono::duration<double>(clock::now() - start).count(), best = 1e9;
    for (int part = 0; part < 5; ++part) {
        // Short runs keep the device's queue from filling up, so they measure only the host's cost.
        double spent = 0;
        for (size_t done = 0; done < n; done += 500) {
            auto begin = clock::now();
            for (int i = 0; i < 500; ++i)
                empty<<<1, 1>>>(0);
            spent += std::chrono::duration<double>(clock::now() - begin).count();
            CUDA_OK(cudaDeviceSynchronize());
        }
        best = std::min(best, spent / n);
    }
    std::printf("launch_ns %.1f\nfirst_launch_s %.4f\n", best * 1e9, first);
}
