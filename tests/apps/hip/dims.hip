// What a kernel is told of its launch, in three dimensions: HIP's variables, and the functions of the device library.
#include "../check.cuh"

extern "C" __device__ size_t __ockl_get_global_id(unsigned);
extern "C" __device__ size_t __ockl_get_local_size(unsigned);
extern "C" __device__ size_t __ockl_get_num_groups(unsigned);

__global__ void __launch_bounds__(128) dims(unsigned *out) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,
             z = blockIdx.z * blockDim.z + threadIdx.z;
    unsigned width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
    unsigned at = (z * height + y) * width + x;
    out[2 * at] = x + 100 * y + 10000 * z;
    out[2 * at + 1] = __ockl_get_global_id(0) + 100 * __ockl_get_global_id(1) + 10000 * __ockl_get_global_id(2) +
                      static_cast<unsigned>(__ockl_get_local_size(1) * 1000000 + __ockl_get_num_groups(2) * 10000000);
}

int main(int argc, char **argv) {
    unsigned depth = static_cast<unsigned>(size_argument(argc, argv, 3));
    dim3 grid(3, 5, depth), block(16, 4, 2);
    size_t n = 48 * 20 * 2 * depth;
    DeviceArray<unsigned> out(2 * n);
    dims<<<grid, block>>>(out.get());
    LAUNCH_OK();
    std::vector<unsigned> result = out.download();
    bool right = true;
    for (unsigned at = 0; at < n; ++at) {
        unsigned expected = at % 48 + 100 * (at / 48 % 20) + 10000 * (at / 48 / 20);
        right = right && result[2 * at] == expected && result[2 * at + 1] == expected + 4000000 + 10000000 * depth;
    }
    return finish("dims", right, depth);
}
