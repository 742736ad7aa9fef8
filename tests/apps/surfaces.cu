// A picture in a surface is blurred by a texture of an array, weights in linear memory and rows in pitched memory:
// `surfaces [launches]`. Handles have gaps, and one texture outlives its array.
#include "check.cuh"

#include <cstring>

constexpr int WIDTH = 40, HEIGHT = 24;

#ifdef __clang__
// Clang 19 lacks the surface functions.
__device__ float read(cudaSurfaceObject_t surface, int x, int y) {
    float value;
    asm volatile("suld.b.2d.b32.trap {%0}, [%1, {%2, %3}];"
                 : "=f"(value)
                 : "l"(surface), "r"(x * 4), "r"(y)
                 : "memory");
    return value;
}
__device__ void write(float value, cudaSurfaceObject_t surface, int x, int y) {
    asm volatile("sust.b.2d.b32.trap [%0, {%1, %2}], {%3};" ::"l"(surface), "r"(x * 4), "r"(y), "f"(value) : "memory");
}
#else
__device__ float read(cudaSurfaceObject_t surface, int x, int y) { return surf2Dread<float>(surface, x * 4, y); }
__device__ void write(float value, cudaSurfaceObject_t surface, int x, int y) {
    surf2Dwrite(value, surface, x * 4, y);
}
#endif

struct Sources {
    cudaTextureObject_t picture, weights, rows;
};

__global__ void blur(cudaSurfaceObject_t out, Sources from, float *first, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= width || y >= height)
        return;
    float sum = read(out, x, y) + tex2D<float>(from.rows, x + 0.5f, y + 0.5f);
    for (int i = 0; i < 3; ++i)
        sum += tex1Dfetch<float>(from.weights, i) * tex2D<float>(from.picture, x + i - 0.5f, y + 0.5f);
    write(sum, out, x, y);
    if (y == 0)
        first[x] = sum;
}

// Reads textures alone.
__global__ void gather(cudaTextureObject_t picture, float *out, int width) {
    int x = threadIdx.x;
    if (x < width)
        out[x] = tex2D<float>(picture, x + 0.5f, 0.5f);
}

static cudaTextureObject_t texture(const cudaResourceDesc &resource) {
    cudaTextureDesc how{};
    how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
    how.filterMode = cudaFilterModePoint;
    how.readMode = cudaReadModeElementType;
    cudaTextureObject_t object;
    CUDA_OK(cudaCreateTextureObject(&object, &resource, &how, nullptr));
    return object;
}

static cudaResourceDesc over(cudaArray_t array) {
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    return resource;
}

static cudaArray_t filled(const std::vector<float> &values, unsigned flags) {
    cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    cudaArray_t array;
    CUDA_OK(cudaMallocArray(&array, &format, WIDTH, HEIGHT, flags));
    CUDA_OK(cudaMemcpy2DToArray(array, 0, 0, values.data(), WIDTH * 4, WIDTH * 4, HEIGHT, cudaMemcpyHostToDevice));
    return array;
}

int main(int argc, char **argv) {
    size_t launches = size_argument(argc, argv, 1);
    std::vector<float> picture(WIDTH * HEIGHT), start(WIDTH * HEIGHT), rows(WIDTH * HEIGHT);
    for (int i = 0; i < WIDTH * HEIGHT; ++i) {
        picture[i] = float(scramble(i) % 64);
        start[i] = float(scramble(i + 7777) % 16);
        rows[i] = float(scramble(i + 555) % 4);
    }
    const std::vector<float> weights = {1, 2, 3};
    DeviceArray<float> device_weights(weights), first(WIDTH), line(WIDTH);
    first.clear();
    line.clear();

    cudaArray_t of_picture = filled(picture, 0), of_surface = filled(start, cudaArraySurfaceLoadStore),
                gone = filled(start, 0);
    std::vector<cudaTextureObject_t> spare;
    for (int i = 0; i < 5; ++i)
        spare.push_back(texture(over(of_picture)));
    texture(over(gone));
    CUDA_OK(cudaFreeArray(gone));

    cudaResourceDesc linear{}, pitched{};
    cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    linear.resType = cudaResourceTypeLinear;
    linear.res.linear = {device_weights.get(), format, weights.size() * 4};
    void *memory;
    size_t pitch;
    CUDA_OK(cudaMallocPitch(&memory, &pitch, WIDTH * 4, HEIGHT));
    CUDA_OK(cudaMemcpy2D(memory, pitch, rows.data(), WIDTH * 4, WIDTH * 4, HEIGHT, cudaMemcpyHostToDevice));
    pitched.resType = cudaResourceTypePitch2D;
    pitched.res.pitch2D = {memory, format, WIDTH, HEIGHT, pitch};
    Sources sources = {texture(over(of_picture)), texture(linear), texture(pitched)};
    for (cudaTextureObject_t object : spare)
        CUDA_OK(cudaDestroyTextureObject(object));
    cudaSurfaceObject_t surface;
    cudaResourceDesc resource = over(of_surface);
    CUDA_OK(cudaCreateSurfaceObject(&surface, &resource));

    for (size_t i = 0; i < launches; ++i) {
        blur<<<dim3(blocks_for(WIDTH, 32), HEIGHT), 32>>>(surface, sources, first.get(), WIDTH, HEIGHT);
        LAUNCH_OK();
    }
    gather<<<1, 64>>>(sources.picture, line.get(), WIDTH);
    LAUNCH_OK();

    std::vector<float> got(WIDTH * HEIGHT), top = first.download(), read = line.download();
    CUDA_OK(cudaMemcpy2DFromArray(got.data(), WIDTH * 4, of_surface, 0, 0, WIDTH * 4, HEIGHT, cudaMemcpyDeviceToHost));
    bool right = true;
    for (int y = 0; y < HEIGHT; ++y)
        for (int x = 0; x < WIDTH; ++x) {
            auto at = [&](int column) {
                int inside = column < 0 ? 0 : column >= WIDTH ? WIDTH - 1 : column;
                return picture[y * WIDTH + inside];
            };
            float each = rows[y * WIDTH + x] + at(x - 1) + 2 * at(x) + 3 * at(x + 1);
            float expected = start[y * WIDTH + x] + each * float(launches);
            right = right && got[y * WIDTH + x] == expected;
            if (y == 0)
                right = right && top[x] == expected && read[x] == picture[x];
        }
    CUDA_OK(cudaDestroySurfaceObject(surface));
    for (cudaTextureObject_t object : {sources.picture, sources.weights, sources.rows})
        CUDA_OK(cudaDestroyTextureObject(object));
    CUDA_OK(cudaFreeArray(of_picture));
    CUDA_OK(cudaFreeArray(of_surface));
    CUDA_OK(cudaFree(memory));
    return finish("surfaces", right, WIDTH * HEIGHT);
}
