// Every kind of allocation in one launch, and the runtime's answers about them: a recorder that serves allocations
// itself must stay invisible. Then the program resets the device and uses it again.
#include "check.cuh"

__global__ void gather(const int *plain, const int *pitched, size_t pitch, const int *pooled, const int *managed, const int *pinned, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const int *row = reinterpret_cast<const int *>(reinterpret_cast<const char *>(pitched) + (i / 100) * pitch);
    out[i] = plain[i] + 2 * row[i % 100] + 4 * pooled[i] + 8 * managed[i] + 16 * pinned[i];
}

static bool is_device_memory(const void *pointer) {
    cudaPointerAttributes attributes;
    CUDA_OK(cudaPointerGetAttributes(&attributes, pointer));
    return attributes.type == cudaMemoryTypeDevice && attributes.device == 0 && attributes.devicePointer == pointer;
}

static bool round_trip(int n) {
    size_t bytes = n * sizeof(int), pitch = 0, available = 0, total = 0;
    int *plain, *pitched, *pooled, *managed, *pinned, *out, *pinned_on_device;
    std::vector<int> x(n), result(n);
    for (int i = 0; i < n; ++i)
        x[i] = static_cast<int>(scramble(i) & 0xffff);
    CUDA_OK(cudaMemGetInfo(&available, &total));
    bool right = available > 0 && available <= total;

    CUDA_OK(cudaMalloc(&plain, bytes));
    CUDA_OK(cudaMallocPitch(reinterpret_cast<void **>(&pitched), &pitch, 100 * sizeof(int), (n + 99) / 100));
    CUDA_OK(cudaMallocAsync(reinterpret_cast<void **>(&pooled), bytes, nullptr));
    CUDA_OK(cudaMallocManaged(reinterpret_cast<void **>(&managed), bytes));
    CUDA_OK(cudaHostAlloc(reinterpret_cast<void **>(&pinned), bytes, cudaHostAllocMapped));
    CUDA_OK(cudaHostGetDevicePointer(reinterpret_cast<void **>(&pinned_on_device), pinned, 0));
    CUDA_OK(cudaMalloc(&out, bytes));
    right = right && is_device_memory(plain) && is_device_memory(out) && pitch >= 100 * sizeof(int);
    right = right && reinterpret_cast<size_t>(plain) % 256 == 0 && reinterpret_cast<size_t>(out) % 256 == 0;

    CUDA_OK(cudaMemcpy(plain, x.data(), bytes, cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy2D(pitched, pitch, x.data(), 100 * sizeof(int), 100 * sizeof(int), n / 100, cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpyAsync(pooled, x.data(), bytes, cudaMemcpyHostToDevice, nullptr));
    CUDA_OK(cudaDeviceSynchronize());
    for (int i = 0; i < n; ++i)
        managed[i] = pinned[i] = x[i];
    CUDA_OK(cudaMemset(out, 0xff, bytes));
    gather<<<blocks_for(n, 128), 128>>>(plain, pitched, pitch, pooled, managed, pinned_on_device, out, n);
    LAUNCH_OK();
    CUDA_OK(cudaMemcpy(result.data(), out, bytes, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i)
        right = right && result[i] == 31 * x[i] && managed[i] == x[i];

    // Memory past an allocation stays unchanged, and so does freed memory.
    x.push_back(0);
    right = right && cudaMemcpy(out, x.data(), bytes + 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue;
    right = right && cudaMemcpy(x.data(), out + 1, bytes, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue;
    right = right && cudaMemcpyAsync(out, plain + 1, bytes, cudaMemcpyDeviceToDevice, nullptr) == cudaErrorInvalidValue;
    right = right && cudaMemset(out, 0, bytes + 1) == cudaErrorInvalidValue && cudaMemset(out + n, 0, 0) == cudaSuccess;
    CUDA_OK(cudaFree(plain));
    right = right && cudaMemset(plain, 0, 4) == cudaErrorInvalidValue;
    right = right && cudaMemcpy(plain, x.data(), 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue;
    CUDA_OK(cudaFree(pitched));
    CUDA_OK(cudaFreeAsync(pooled, nullptr));
    CUDA_OK(cudaFree(managed));
    CUDA_OK(cudaFreeHost(pinned));
    CUDA_OK(cudaFree(out));
    int unmanaged = 0;
    right = right && cudaFree(&unmanaged) == cudaErrorInvalidValue;
    (void)cudaGetLastError();
    return right;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 4000)) / 100 * 100;
    bool right = round_trip(n);
    CUDA_OK(cudaDeviceReset());
    right = round_trip(n) && right;
    return finish("memory", right, n);
}
