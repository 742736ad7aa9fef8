// Kernels that need neither headers nor device libraries, so they compile for processors that no installed library knows.
#define KERNEL extern "C" __attribute__((global))
#define SHARED __attribute__((shared))

KERNEL void scale(float *out, const float *in, int count, float by) {
    int i = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
    if (i < count) out[i] = in[i] * by + 1.0f;
}

KERNEL void reverse(float *out) {
    SHARED float room[256];
    unsigned t = __builtin_amdgcn_workitem_id_x();
    room[t] = out[t];
    __builtin_amdgcn_s_barrier();
    out[t] = room[255 - t];
}

KERNEL void loop(double *out, int count) {
    double values[16];
    unsigned t = __builtin_amdgcn_workitem_id_x();
    for (int k = 0; k < 16; ++k) values[k] = out[t * 16 + k];
    for (int round = 0; round < count; ++round)
        for (int k = 0; k < 16; ++k) values[k] = values[k] * values[(k + 5) % 16] + round;
    for (int k = 0; k < 16; ++k) out[t * 16 + k] = values[k];
}

// Stores that become a fill of memory on NVIDIA GPUs, but not on AMD GPUs.
KERNEL void clear(long *out) {
    out += 8 * __builtin_amdgcn_workitem_id_x();
    out[0] = out[1] = out[2] = out[3] = out[4] = out[5] = out[6] = 0;
}
