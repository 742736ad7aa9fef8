// `timesteps [MIB] [STEPS]`: a time-stepping program with 20 kernels and 20 fields of MIB in total (160). Each step
// runs each kernel once, which updates a part of its field from its neighbours'. Full images have twice MIB for each
// launch.
#include "../apps/check.cuh"

#include <utility>

constexpr int FIELDS = 20;

template <int K> __global__ void update(float *own, const float *left, const float *right, size_t n, int step) {
    size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n)
        own[i] = own[i] * 0.5f + 0.25f * (left[i] + right[i]) + (K + 1) * 0.001f * step;
}

template <int... K> static void run(std::vector<float *> &fields, size_t n, int step, std::integer_sequence<int, K...>) {
    (update<K><<<blocks_for(n, 256), 256>>>(fields[K], fields[(K + FIELDS - 1) % FIELDS], fields[(K + 1) % FIELDS], n, step), ...);
}

int main(int argc, char **argv) {
    size_t bytes = size_argument(argc, argv, 160) << 20, steps = size_argument(argc - 1, argv + 1, 4);
    size_t n = bytes / FIELDS / sizeof(float);
    std::vector<float> host(n);
    std::vector<float *> fields(FIELDS);
    for (int field = 0; field < FIELDS; ++field) {
        for (size_t i = 0; i < n; ++i)
            host[i] = unit_float(static_cast<unsigned>(i * FIELDS + field));
        CUDA_OK(cudaMalloc(&fields[field], n * sizeof(float)));
        CUDA_OK(cudaMemcpy(fields[field], host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    }
    for (size_t step = 0; step < steps; ++step)
        run(fields, n, static_cast<int>(step), std::make_integer_sequence<int, FIELDS>());
    LAUNCH_OK();
    std::printf("memory_bytes %zu\nlaunches %zu\n", n * sizeof(float) * FIELDS, steps * FIELDS);
}
