// Launches that repeat: from the second one on, each finds its own results in memory. `refill` only writes its output.
// `settle` updates in place, so its effect is invisible. `scatter` writes cells with padding, at indices and through a
// table of pointers, and skips every other cell. `late` has no effect before its third launch.
#include "check.cuh"

struct Cell {
    int value;
    short tag;
};

__global__ void refill(float *out, const float *in, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i] * 0.5f + 1.0f;
}

__global__ void settle(float *values, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n)
        values[i] = fabsf(values[i]);
}

__global__ void scatter(Cell **rows, int *index, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) {
        Cell *cell = rows[i % 2] + index[i];
        cell->value = int(i) + 7;
        cell->tag = short(i % 100);
    }
}

__global__ void late(int *out, const int *ready, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n && *ready)
        out[i] = int(i) + 1;
}

int main(int argc, char **argv) {
    size_t n = size_argument(argc, argv, 5000);
    std::vector<float> in(n);
    std::vector<int> index(n);
    for (size_t i = 0; i < n; ++i) {
        in[i] = -1.0f - float(i % 512);
        index[i] = int(2 * (n - 1 - i));
    }
    DeviceArray<float> device_in(in), out(n), values(in);
    DeviceArray<int> device_index(index);
    DeviceArray<Cell> even(2 * n), odd(2 * n);
    DeviceArray<Cell *> rows(std::vector<Cell *>{even.get(), odd.get()});
    DeviceArray<int> numbers(n), ready(1);
    out.clear();
    numbers.clear();
    ready.clear();
    even.clear();
    odd.clear();
    unsigned blocks = blocks_for(n, 128);
    for (int step = 0; step < 3; ++step) {
        refill<<<blocks, 128>>>(out.get(), device_in.get(), n);
        settle<<<blocks, 128>>>(values.get(), n);
        scatter<<<blocks, 128>>>(rows.get(), device_index.get(), n);
        if (step == 2)
            CUDA_OK(cudaMemset(ready.get(), 1, sizeof(int)));
        late<<<blocks, 128>>>(numbers.get(), ready.get(), n);
        LAUNCH_OK();
    }
    auto filled = out.download(), settled = values.download();
    auto cells = even.download();
    auto counted = numbers.download();
    bool right = true;
    for (size_t i = 0; i < n; ++i)
        right = right && filled[i] == in[i] * 0.5f + 1.0f && settled[i] == -in[i] && counted[i] == int(i) + 1;
    for (size_t i = 0; i < n; i += 2)
        right = right && cells[2 * (n - 1 - i)].value == int(i) + 7;
    return finish("steady", right, n);
}
