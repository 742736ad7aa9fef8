// Reads a table at positions from another array: changing that array changes the positions. The third array is only a
// factor.
#include "check.cuh"

constexpr int BINS = 64, STEP = 16384;

__global__ void binned(float *out, const float *where, const float *by, const float *table, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = by[i] * table[static_cast<int>(where[i]) * STEP];
}

int main() {
    const int n = 5000;
    std::vector<float> where(n), by(n), table(BINS * STEP, 1.5f), expected(n);
    for (int i = 0; i < BINS; ++i)
        table[i * STEP] = i + 0.25f;
    for (int i = 0; i < n; ++i) {
        where[i] = static_cast<float>(1 << i % 6);
        by[i] = unit_float(i) + 1;
        expected[i] = by[i] * (where[i] + 0.25f);
    }
    DeviceArray<float> device_where(where), device_by(by), device_table(table), out(n);
    out.clear();
    binned<<<blocks_for(n, 128), 128>>>(out.get(), device_where.get(), device_by.get(), device_table.get(), n);
    LAUNCH_OK();
    return finish("binned", out.download() == expected, n);
}
