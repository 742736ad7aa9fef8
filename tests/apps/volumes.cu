// Three-dimensional memory with a pitch: allocated, filled, copied there and back, and scaled by a kernel.
#include "check.cuh"

__global__ void scale(cudaPitchedPtr volume, unsigned width, unsigned height, float factor) {
    unsigned x = threadIdx.x, y = blockIdx.x, z = blockIdx.y;
    if (x < width)
        reinterpret_cast<float *>(static_cast<char *>(volume.ptr) + (z * height + y) * volume.pitch)[x] *= factor;
}

int main(int argc, char **argv) {
    unsigned depth = static_cast<unsigned>(size_argument(argc, argv, 5)), width = 37, height = 11;
    std::vector<float> host(width * height * depth), back(host.size());
    for (unsigned i = 0; i < host.size(); ++i)
        host[i] = unit_float(i);
    cudaExtent extent = make_cudaExtent(width * sizeof(float), height, depth);
    cudaPitchedPtr volume;
    CUDA_OK(cudaMalloc3D(&volume, extent));
    CUDA_OK(cudaMemset3D(volume, 0, extent));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(host.data(), width * sizeof(float), width, height);
    copy.dstPtr = volume;
    // All slices except the first one, which stays zero.
    copy.srcPos = copy.dstPos = make_cudaPos(0, 0, 1);
    copy.extent = make_cudaExtent(width * sizeof(float), height, depth - 1);
    copy.kind = cudaMemcpyHostToDevice;
    CUDA_OK(cudaMemcpy3D(&copy));
    scale<<<dim3(height, depth), 64>>>(volume, width, height, 2.0f);
    LAUNCH_OK();
    copy = {};
    copy.srcPtr = volume;
    copy.dstPtr = make_cudaPitchedPtr(back.data(), width * sizeof(float), width, height);
    copy.extent = extent;
    copy.kind = cudaMemcpyDeviceToHost;
    CUDA_OK(cudaMemcpy3DAsync(&copy, 0));
    CUDA_OK(cudaStreamSynchronize(0));
    CUDA_OK(cudaFree(volume.ptr));

    bool right = volume.pitch >= width * sizeof(float) && volume.xsize == width * sizeof(float) && volume.ysize == height;
    for (unsigned i = 0; i < host.size(); ++i)
        right = right && back[i] == (i < width * height ? 0.0f : 2.0f * host[i]);
    cudaChannelFormatDesc channels = cudaCreateChannelDesc(32, 16, 8, 0, cudaChannelFormatKindFloat);
    right = right && channels.x == 32 && channels.y == 16 && channels.z == 8 && channels.w == 0 && channels.f == cudaChannelFormatKindFloat;
    return finish("volumes", right, depth);
}
