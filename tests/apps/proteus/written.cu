// The text that a program passes to Proteus's C++ front end.
extern "C" __global__ void fill(double *y, double value, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n)
        y[i] += value * i;
}
