// A plug-in with one kernel. It is built with different steps.
#include "../check.cuh"

__global__ void advance(int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        values[i] += STEP;
}

extern "C" __attribute__((visibility("default"))) int plugin_run() {
    DeviceArray<int> values(10240);
    values.clear();
    advance<<<40, 256>>>(values.get(), 5000);
    LAUNCH_OK();
    return values.download()[4999];
}
