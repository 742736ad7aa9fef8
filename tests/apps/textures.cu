// Textures and surfaces by handle: formats, coordinates, address modes and filters, layers, cubes, gathering, memory
// read as a texture, and surfaces, each against the definition of CUDA's programming guide in double on the host.
//
// Coordinates are odd 128ths of a texel: away from texel boundaries, and with exact weights of linear filters, which
// GPUs compute in 256ths. With normalised coordinates, an H200's weights are off by one 256th, and numbers may differ
// by up to twice the greatest one, which explains the tolerance of filtered results. Other results are exact, except
// for the last bits of divisions (by 255, for example), and for sRGB, which an H200 rounds to eight bits.
#include "check.cuh"
#include <cmath>
#include <cstdint>
#include <cstring>

constexpr int WIDTH = 16, HEIGHT = 8, DEPTH = 4, LAYERS = 3;

#ifdef __clang__
// Clang 19 lacks the surface functions.
__device__ int read_plane(cudaSurfaceObject_t surface, int x, int y) {
    int value;
    asm volatile("suld.b.2d.b32.trap {%0}, [%1, {%2, %3}];" : "=r"(value) : "l"(surface), "r"(x), "r"(y) : "memory");
    return value;
}
__device__ int read_plane_clamped(cudaSurfaceObject_t surface, int x, int y) {
    int value;
    asm volatile("suld.b.2d.b32.clamp {%0}, [%1, {%2, %3}];" : "=r"(value) : "l"(surface), "r"(x), "r"(y) : "memory");
    return value;
}
__device__ int read_plane_or_zero(cudaSurfaceObject_t surface, int x, int y) {
    int value;
    asm volatile("suld.b.2d.b32.zero {%0}, [%1, {%2, %3}];" : "=r"(value) : "l"(surface), "r"(x), "r"(y) : "memory");
    return value;
}
__device__ void write_plane(int value, cudaSurfaceObject_t surface, int x, int y) {
    asm volatile("sust.b.2d.b32.trap [%0, {%1, %2}], {%3};" ::"l"(surface), "r"(x), "r"(y), "r"(value) : "memory");
}
__device__ void write_plane_inside(int value, cudaSurfaceObject_t surface, int x, int y) {
    asm volatile("sust.b.2d.b32.zero [%0, {%1, %2}], {%3};" ::"l"(surface), "r"(x), "r"(y), "r"(value) : "memory");
}
__device__ uchar4 read_line(cudaSurfaceObject_t surface, int x) {
    short a, b, c, d;
    asm volatile("suld.b.1d.v4.b8.trap {%0, %1, %2, %3}, [%4, {%5}];"
                 : "=h"(a), "=h"(b), "=h"(c), "=h"(d)
                 : "l"(surface), "r"(x)
                 : "memory");
    return make_uchar4(a, b, c, d);
}
__device__ void write_line(uchar4 value, cudaSurfaceObject_t surface, int x) {
    asm volatile("sust.b.1d.v4.b8.trap [%0, {%1}], {%2, %3, %4, %5};" ::"l"(surface), "r"(x), "h"(short(value.x)),
                 "h"(short(value.y)), "h"(short(value.z)), "h"(short(value.w))
                 : "memory");
}
__device__ short read_volume(cudaSurfaceObject_t surface, int x, int y, int z) {
    short value;
    asm volatile("suld.b.3d.b16.trap {%0}, [%1, {%2, %3, %4, %4}];"
                 : "=h"(value)
                 : "l"(surface), "r"(x), "r"(y), "r"(z)
                 : "memory");
    return value;
}
__device__ void write_volume(short value, cudaSurfaceObject_t surface, int x, int y, int z) {
    asm volatile("sust.b.3d.b16.trap [%0, {%1, %2, %3, %3}], {%4};" ::"l"(surface), "r"(x), "r"(y), "r"(z), "h"(value)
                 : "memory");
}
__device__ float2 read_layer(cudaSurfaceObject_t surface, int x, int y, int layer) {
    float2 value;
    asm volatile("suld.b.a2d.v2.b32.trap {%0, %1}, [%2, {%3, %4, %5, %5}];"
                 : "=f"(value.x), "=f"(value.y)
                 : "l"(surface), "r"(layer), "r"(x), "r"(y)
                 : "memory");
    return value;
}
__device__ void write_layer(float2 value, cudaSurfaceObject_t surface, int x, int y, int layer) {
    asm volatile("sust.b.a2d.v2.b32.trap [%0, {%1, %2, %3, %3}], {%4, %5};" ::"l"(surface), "r"(layer), "r"(x), "r"(y),
                 "f"(value.x), "f"(value.y)
                 : "memory");
}
#else
__device__ int read_plane(cudaSurfaceObject_t surface, int x, int y) { return surf2Dread<int>(surface, x, y); }
__device__ int read_plane_clamped(cudaSurfaceObject_t surface, int x, int y) {
    return surf2Dread<int>(surface, x, y, cudaBoundaryModeClamp);
}
__device__ int read_plane_or_zero(cudaSurfaceObject_t surface, int x, int y) {
    return surf2Dread<int>(surface, x, y, cudaBoundaryModeZero);
}
__device__ void write_plane(int value, cudaSurfaceObject_t surface, int x, int y) { surf2Dwrite(value, surface, x, y); }
__device__ void write_plane_inside(int value, cudaSurfaceObject_t surface, int x, int y) {
    surf2Dwrite(value, surface, x, y, cudaBoundaryModeZero);
}
__device__ uchar4 read_line(cudaSurfaceObject_t surface, int x) { return surf1Dread<uchar4>(surface, x); }
__device__ void write_line(uchar4 value, cudaSurfaceObject_t surface, int x) { surf1Dwrite(value, surface, x); }
__device__ short read_volume(cudaSurfaceObject_t surface, int x, int y, int z) {
    return surf3Dread<short>(surface, x, y, z);
}
__device__ void write_volume(short value, cudaSurfaceObject_t surface, int x, int y, int z) {
    surf3Dwrite(value, surface, x, y, z);
}
__device__ float2 read_layer(cudaSurfaceObject_t surface, int x, int y, int layer) {
    return surf2DLayeredread<float2>(surface, x, y, layer);
}
__device__ void write_layer(float2 value, cudaSurfaceObject_t surface, int x, int y, int layer) {
    surf2DLayeredwrite(value, surface, x, y, layer);
}
#endif

enum Way { LINE, PLANE, VOLUME, LINES, PLANES, CUBE, CUBES, LEVEL, GRADIENT, GATHER_X, GATHER_W, FETCH };

// A texture's values at each place, as four words.
__global__ void sample(cudaTextureObject_t texture, Way way, bool floats, const float4 *at, uint4 *out, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float4 p = at[i];
    int layer = int(p.w);
    if (!floats) {
        if (way == FETCH)
            out[i] = tex1Dfetch<uint4>(texture, layer);
        else
            out[i] = tex2D<uint4>(texture, p.x, p.y);
        return;
    }
    float4 got = make_float4(0, 0, 0, 0);
    switch (way) {
    case LINE: got = tex1D<float4>(texture, p.x); break;
    case PLANE: got = tex2D<float4>(texture, p.x, p.y); break;
    case VOLUME: got = tex3D<float4>(texture, p.x, p.y, p.z); break;
    case LINES: got = tex1DLayered<float4>(texture, p.x, layer); break;
    case PLANES: got = tex2DLayered<float4>(texture, p.x, p.y, layer); break;
    case CUBE: got = texCubemap<float4>(texture, p.x, p.y, p.z); break;
    case CUBES: got = texCubemapLayered<float4>(texture, p.x, p.y, p.z, layer); break;
    case LEVEL: got = tex2DLod<float4>(texture, p.x, p.y, 0.f); break;
    case GRADIENT: got = tex2DGrad<float4>(texture, p.x, p.y, make_float2(0, 0), make_float2(0, 0)); break;
    case GATHER_X: got = tex2Dgather<float4>(texture, p.x, p.y, 0); break;
    case GATHER_W: got = tex2Dgather<float4>(texture, p.x, p.y, 3); break;
    case FETCH: got = tex1Dfetch<float4>(texture, layer); break;
    }
    out[i] = make_uint4(__float_as_uint(got.x), __float_as_uint(got.y), __float_as_uint(got.z), __float_as_uint(got.w));
}

// A kernel's stores are visible to the next one.
__global__ void change_plane(cudaSurfaceObject_t surface) {
    int x = threadIdx.x, y = threadIdx.y;
    write_plane(read_plane(surface, 4 * x, y) * 3 + 1, surface, 4 * x, y);
    // No place is outside.
    write_plane_inside(-1, surface, 4 * (x + WIDTH), y);
    write_plane_inside(-1, surface, 4 * x, y - HEIGHT);
}

__global__ void read_planes(cudaSurfaceObject_t surface, int *out) {
    int x = threadIdx.x, y = threadIdx.y;
    int *own = out + 3 * (y * WIDTH + x);
    own[0] = read_plane(surface, 4 * (WIDTH - 1 - x), y);
    own[1] = read_plane_clamped(surface, 4 * (2 * x - 8), 2 * y - 4);
    own[2] = read_plane_or_zero(surface, 4 * (2 * x - 8), 2 * y - 4);
}

__global__ void change_others(cudaSurfaceObject_t line, cudaSurfaceObject_t volume, cudaSurfaceObject_t layers) {
    int x = threadIdx.x;
    uchar4 four = read_line(line, 4 * x);
    write_line(make_uchar4(four.y, four.z, four.w, four.x + 200), line, 4 * x);
    for (int z = 0; z < DEPTH; ++z)
        for (int y = 0; y < HEIGHT; ++y)
            write_volume(read_volume(volume, 2 * x, y, z) - 1000 * z, volume, 2 * x, y, z);
    for (int layer = 0; layer < LAYERS; ++layer) {
        float2 two = read_layer(layers, 8 * x, layer, layer);
        write_layer(make_float2(two.y, two.x + layer), layers, 8 * x, layer, layer);
    }
}

// A kernel without textures, in between.
__global__ void total(const uint4 *words, unsigned *out, int count) {
    unsigned sum = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        sum += words[i].x ^ words[i].w;
    atomicAdd(out, sum);
}

// The greatest number that a texel can have, and the numbers.
struct Format {
    const char *name;
    cudaChannelFormatKind kind;
    int bytes, channels;
    bool normalized, srgb;
};

const Format FLOAT4 = {"float4", cudaChannelFormatKindFloat, 4, 4, false, false};
const Format FORMATS[] = {
    FLOAT4,
    {"float2", cudaChannelFormatKindFloat, 4, 2, false, false},
    {"float", cudaChannelFormatKindFloat, 4, 1, false, false},
    {"half4", cudaChannelFormatKindFloat, 2, 4, false, false},
    {"half", cudaChannelFormatKindFloat, 2, 1, false, false},
    {"uchar4 up to 1", cudaChannelFormatKindUnsigned, 1, 4, true, false},
    {"uchar4 of sRGB", cudaChannelFormatKindUnsigned, 1, 4, true, true},
    {"char2 up to 1", cudaChannelFormatKindSigned, 1, 2, true, false},
    {"ushort up to 1", cudaChannelFormatKindUnsigned, 2, 1, true, false},
    {"short4 up to 1", cudaChannelFormatKindSigned, 2, 4, true, false},
    {"uchar", cudaChannelFormatKindUnsigned, 1, 1, false, false},
    {"char4", cudaChannelFormatKindSigned, 1, 4, false, false},
    {"ushort2", cudaChannelFormatKindUnsigned, 2, 2, false, false},
    {"short", cudaChannelFormatKindSigned, 2, 1, false, false},
    {"uint4", cudaChannelFormatKindUnsigned, 4, 4, false, false},
    {"int", cudaChannelFormatKindSigned, 4, 1, false, false},
};

bool is_float(const Format &format) { return format.kind == cudaChannelFormatKindFloat || format.normalized; }

cudaChannelFormatDesc described(const Format &format) {
    int bits = 8 * format.bytes, n = format.channels;
    return cudaCreateChannelDesc(bits, n > 1 ? bits : 0, n > 2 ? bits : 0, n > 2 ? bits : 0, format.kind);
}

// Texels of a format with arbitrary bits, except for floats, which are multiples of a quarter.
struct Image {
    Format format;
    int width, height, depth;
    std::vector<unsigned char> bytes;

    Image(const Format &format, int width, int height, int depth)
        : format(format), width(width), height(height), depth(depth),
          bytes(size_t(width) * height * depth * format.bytes * format.channels) {
        for (size_t i = 0; i < bytes.size() / format.bytes; ++i) {
            unsigned bits = scramble(unsigned(i) + 17);
            if (format.kind == cudaChannelFormatKindFloat) {
                int number = int(bits % 1021) - 400;
                float value = number / 4.f;
                std::memcpy(&bits, &value, 4);
                // A half has the same fraction with fewer bits, and a smaller exponent. 0 stays 0.
                if (format.bytes == 2)
                    bits = number ? (bits >> 16 & 0x8000) | ((bits >> 13 & 0x3ffff) - (112 << 10)) : 0;
            }
            std::memcpy(&bytes[i * format.bytes], &bits, format.bytes);
        }
    }

    size_t texel() const { return size_t(format.bytes) * format.channels; }

    // A number in its stored form.
    uint32_t bits(int x, int y, int z, int channel) const {
        uint32_t bits = 0;
        size_t texel_number = (size_t(z) * height + y) * width + x;
        std::memcpy(&bits, &bytes[texel_number * texel() + size_t(channel) * format.bytes], format.bytes);
        return bits;
    }

    // A number read as an integer.
    uint32_t integer(int x, int y, int z, int channel) const {
        uint32_t all = bits(x, y, z, channel);
        if (format.kind != cudaChannelFormatKindSigned)
            return all;
        return format.bytes == 1 ? uint32_t(int8_t(all)) : format.bytes == 2 ? uint32_t(int16_t(all)) : all;
    }

    double number(int x, int y, int z, int channel) const {
        uint32_t all = bits(x, y, z, channel);
        if (format.kind == cudaChannelFormatKindFloat) {
            if (format.bytes == 2)
                return ((all & 0x8000) ? -1.0 : 1.0) *
                       ((all & 0x7fff) ? std::ldexp(1024 + (all & 1023), int(all >> 10 & 31) - 25) : 0.0);
            float value;
            std::memcpy(&value, &all, 4);
            return value;
        }
        if (format.kind == cudaChannelFormatKindSigned) {
            double most = format.bytes == 1 ? 127 : 32767;
            return std::fmax(-1.0, int32_t(integer(x, y, z, channel)) / most);
        }
        double value = all / (format.bytes == 1 ? 255.0 : 65535.0);
        if (format.srgb && channel < 3)
            value = value <= 0.04045 ? value / 12.92 : std::pow((value + 0.055) / 1.055, 2.4);
        return value;
    }

    double greatest() const {
        double greatest = 0;
        for (int z = 0; z < depth; ++z)
            for (int y = 0; y < height; ++y)
                for (int x = 0; x < width; ++x)
                    for (int channel = 0; channel < format.channels; ++channel)
                        greatest = std::fmax(greatest, std::fabs(number(x, y, z, channel)));
        return greatest;
    }
};

struct Mode {
    cudaTextureAddressMode address;
    bool linear, normalized;
};

// What numbers up to 1 can have, too.
const float BORDERS[2][4] = {{2.5f, -1.25f, 0.5f, 4.f}, {1.f, 0.f, 1.f, 1.f}};

const float *border(const Format &format) { return BORDERS[format.normalized]; }

// Texels along an axis and their weights; −1 is the border.
struct Part {
    int texel;
    double weight;
};

std::vector<Part> along(double x, int count, const Mode &mode) {
    cudaTextureAddressMode address = mode.address;
    if (mode.normalized) {
        double whole = std::floor(x);
        if (address == cudaAddressModeWrap)
            x -= whole;
        if (address == cudaAddressModeMirror)
            x = std::fmod(whole, 2.0) == 0.0 ? x - whole : 1.0 - (x - whole);
        x *= count;
    } else if (address != cudaAddressModeBorder) {
        address = cudaAddressModeClamp;
    }
    std::vector<Part> parts;
    if (mode.linear) {
        double first = std::floor(x - 0.5), second = x - 0.5 - first;
        parts = {{int(first), 1 - second}, {int(first) + 1, second}};
    } else {
        parts = {{int(std::floor(x)), 1}};
    }
    for (Part &part : parts) {
        bool inside = part.texel >= 0 && part.texel < count;
        if (address == cudaAddressModeBorder)
            part.texel = inside ? part.texel : -1;
        else if (address == cudaAddressModeWrap)
            part.texel = (part.texel + count) % count;
        else
            part.texel = part.texel < 0 ? 0 : part.texel >= count ? count - 1 : part.texel;
    }
    return parts;
}

double expected(const Image &image, const Mode &mode, int axes, double x, double y, double z, int layer, int channel) {
    std::vector<Part> one = {{0, 1}}, at_x = along(x, image.width, mode);
    std::vector<Part> at_y = axes > 1 ? along(y, image.height, mode) : one;
    std::vector<Part> at_z = axes > 2 ? along(z, image.depth, mode) : std::vector<Part>{{layer, 1}};
    double sum = 0;
    for (const Part &c : at_z)
        for (const Part &b : at_y)
            for (const Part &a : at_x) {
                bool inside = a.texel >= 0 && b.texel >= 0 && c.texel >= 0;
                double outside = border(image.format)[channel];
                double number = inside ? image.number(a.texel, b.texel, c.texel, channel) : outside;
                sum += a.weight * b.weight * c.weight * number;
            }
    return sum;
}

struct Texture {
    cudaArray_t array = nullptr;
    cudaTextureObject_t object = 0;

    Texture(const cudaResourceDesc &resource, const Format &format, const Mode &mode) { make(resource, format, mode); }

    Texture(const Image &image, const Mode &mode, unsigned flags = 0) {
        bool is_volume = image.depth > 1;
        cudaChannelFormatDesc format = described(image.format);
        size_t pitch = image.width * image.texel();
        // A line has no height, except in copies.
        size_t height = image.height > 1 || (is_volume && !(flags & cudaArrayLayered)) ? image.height : 0;
        if (is_volume || flags) {
            cudaExtent extent = make_cudaExtent(image.width, height, is_volume ? image.depth : 0);
            CUDA_OK(cudaMalloc3DArray(&array, &format, extent, flags));
            cudaMemcpy3DParms copy{};
            void *bytes = const_cast<unsigned char *>(image.bytes.data());
            copy.srcPtr = make_cudaPitchedPtr(bytes, pitch, image.width, image.height);
            copy.dstArray = array;
            copy.extent = make_cudaExtent(image.width, image.height, image.depth);
            copy.kind = cudaMemcpyHostToDevice;
            CUDA_OK(cudaMemcpy3D(&copy));
        } else {
            CUDA_OK(cudaMallocArray(&array, &format, image.width, height));
            CUDA_OK(cudaMemcpy2DToArrayAsync(array, 0, 0, image.bytes.data(), pitch, pitch, image.height,
                                             cudaMemcpyHostToDevice, 0));
        }
        cudaResourceDesc resource{};
        resource.resType = cudaResourceTypeArray;
        resource.res.array.array = array;
        // On an H200, the mode of a missing axis affects a line's result.
        make(resource, image.format, mode, image.height == 1 ? 1 : 3);
    }

    void make(const cudaResourceDesc &resource, const Format &format, const Mode &mode, int axes = 3) {
        cudaTextureDesc what{};
        for (int axis = 0; axis < axes; ++axis)
            what.addressMode[axis] = mode.address;
        what.filterMode = mode.linear ? cudaFilterModeLinear : cudaFilterModePoint;
        what.normalizedCoords = mode.normalized;
        what.readMode = format.normalized ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
        what.sRGB = format.srgb;
        if (is_float(format))
            std::memcpy(what.borderColor, border(format), sizeof what.borderColor);
        CUDA_OK(cudaCreateTextureObject(&object, &resource, &what, nullptr));
    }

    ~Texture() {
        cudaDestroyTextureObject(object);
        cudaFreeArray(array);
    }
};

int wrong = 0;

// The differences between a texel's numbers and the expected ones.
void compare(const char *name, uint32_t got, uint32_t exact, double number, double tolerance, bool floats) {
    float value;
    std::memcpy(&value, &got, 4);
    bool right = floats ? std::fabs(value - number) <= tolerance : got == exact;
    if (!right && ++wrong <= 8)
        std::fprintf(stderr, "%s: %u (%.9g), and not %u (%.9g)\n", name, got, value, exact, number);
}

std::vector<uint4> sampled(cudaTextureObject_t texture, Way way, bool floats, const std::vector<float4> &at) {
    DeviceArray<float4> places(at);
    DeviceArray<uint4> out(at.size());
    sample<<<blocks_for(at.size(), 64), 64>>>(texture, way, floats, places.get(), out.get(), int(at.size()));
    LAUNCH_OK();
    return out.download();
}

// Places within an axis and past both ends, alternating per axis. The layer is w.
std::vector<float4> places(const Image &image, bool normalized, int layers) {
    std::vector<float4> all;
    for (int i = 0; i < 192; ++i) {
        auto along = [&](int salt, int count) {
            double texels = int(scramble(i * 4 + salt) % (3 * 64 * count)) / 64.0 - count + 1 / 128.0;
            return float(normalized ? texels / count : texels);
        };
        all.push_back(make_float4(along(0, image.width), along(1, image.height), along(2, image.depth), i % layers));
    }
    return all;
}

void check(const Image &image, const Mode &mode, Way way, int axes, cudaTextureObject_t texture, int layers = 1) {
    std::vector<float4> at = places(image, mode.normalized, layers);
    bool floats = is_float(image.format);
    std::vector<uint4> got = sampled(texture, way, floats, at);
    double greatest = std::fmax(image.greatest(), image.format.normalized ? 1.0 : 4.0);
    double tolerance = (mode.linear ? axes * 2 / 256. : image.format.srgb ? 1 / 256. : 1e-6) * greatest;
    char name[128];
    std::snprintf(name, sizeof name, "%s, way %d, address mode %d, %s, %s coordinates", image.format.name, way,
                  int(mode.address), mode.linear ? "linear" : "point", mode.normalized ? "normalised" : "plain");
    for (size_t i = 0; i < at.size(); ++i) {
        uint32_t words[4] = {got[i].x, got[i].y, got[i].z, got[i].w};
        for (int channel = 0; channel < image.format.channels; ++channel) {
            uint32_t exact = 0;
            double number = 0;
            if (floats) {
                number = expected(image, mode, axes, at[i].x, at[i].y, at[i].z, int(at[i].w), channel);
            } else {
                Part x = along(at[i].x, image.width, mode)[0], y = along(at[i].y, image.height, mode)[0];
                exact = x.texel < 0 || y.texel < 0 ? 0 : image.integer(x.texel, y.texel, 0, channel);
            }
            compare(name, words[channel], exact, number, tolerance, floats);
        }
    }
}

// All modes on lines, planes and volumes, and all formats on planes.
void modes() {
    for (const Format &format : FORMATS)
        for (int address = 0; address < 4; ++address)
            for (int linear = 0; linear <= is_float(format); ++linear)
                for (int normalized = 0; normalized < 2; ++normalized) {
                    Mode mode = {cudaTextureAddressMode(address), linear != 0, normalized != 0};
                    Image plane(format, WIDTH, HEIGHT, 1);
                    Texture texture(plane, mode);
                    check(plane, mode, PLANE, 2, texture.object);
                    if (&format != FORMATS)
                        continue;
                    check(plane, mode, LEVEL, 2, texture.object);
                    check(plane, mode, GRADIENT, 2, texture.object);
                    Image line(format, WIDTH, 1, 1), volume(format, WIDTH, HEIGHT, DEPTH);
                    check(line, mode, LINE, 1, Texture(line, mode).object);
                    check(volume, mode, VOLUME, 3, Texture(volume, mode).object);
                    Image lines(format, WIDTH, 1, LAYERS), planes(format, WIDTH, HEIGHT, LAYERS);
                    check(lines, mode, LINES, 1, Texture(lines, mode, cudaArrayLayered).object, LAYERS);
                    check(planes, mode, PLANES, 2, Texture(planes, mode, cudaArrayLayered).object, LAYERS);
                }
}

// Faces in the programming guide's order, each reached along its axis.
void cubes() {
    const Mode mode = {cudaAddressModeClamp, false, true};
    Image image(FLOAT4, HEIGHT, HEIGHT, 12);
    Image first(FLOAT4, HEIGHT, HEIGHT, 6);
    Texture one(first, mode, cudaArrayCubemap), two(image, mode, cudaArrayCubemap | cudaArrayLayered);
    std::vector<float4> at;
    std::vector<Part> where;
    for (int i = 0; i < 192; ++i) {
        int face = i % 6, layer = i / 6 % 2;
        int column = scramble(i) % HEIGHT, row = scramble(i + 999) % HEIGHT;
        float s = (column + 0.375f) / HEIGHT * 2 - 1, t = (row + 0.625f) / HEIGHT * 2 - 1;
        float4 all[6] = {make_float4(1, -t, -s, 0), make_float4(-1, -t, s, 0), make_float4(s, 1, t, 0),
                         make_float4(s, -1, -t, 0), make_float4(s, -t, 1, 0), make_float4(-s, -t, -1, 0)};
        all[face].w = float(layer);
        at.push_back(all[face]);
        where.push_back({(layer * 6 + face) * 100 + row * 10 + column, 0});
    }
    std::vector<uint4> of_one = sampled(one.object, CUBE, true, at), of_two = sampled(two.object, CUBES, true, at);
    for (size_t i = 0; i < at.size(); ++i) {
        int slice = where[i].texel / 100, row = where[i].texel / 10 % 10, column = where[i].texel % 10;
        compare("cube", of_one[i].y, 0, first.number(column, row, slice % 6, 1), 0, true);
        compare("cubes", of_two[i].z, 0, image.number(column, row, slice, 2), 0, true);
    }
}

void gathering() {
    const Mode mode = {cudaAddressModeClamp, true, false};
    Image image(FLOAT4, WIDTH, HEIGHT, 1);
    Texture texture(image, mode, cudaArrayTextureGather);
    std::vector<float4> at = places(image, false, 1);
    for (Way way : {GATHER_X, GATHER_W}) {
        std::vector<uint4> got = sampled(texture.object, way, true, at);
        for (size_t i = 0; i < at.size(); ++i) {
            std::vector<Part> x = along(at[i].x, WIDTH, mode), y = along(at[i].y, HEIGHT, mode);
            int channel = way == GATHER_X ? 0 : 3;
            auto texel = [&](int a, int b) { return image.number(x[a].texel, y[b].texel, 0, channel); };
            compare("gather x", got[i].x, 0, texel(0, 1), 0, true);
            compare("gather y", got[i].y, 0, texel(1, 1), 0, true);
            compare("gather z", got[i].z, 0, texel(1, 0), 0, true);
            compare("gather w", got[i].w, 0, texel(0, 0), 0, true);
        }
    }
}

// The program's memory as a line of texels and, with a pitch, as a plane.
void memory() {
    for (const Format &format : {FLOAT4, Format{"char4 up to 1", cudaChannelFormatKindSigned, 1, 4, true, false},
                                 Format{"ushort2", cudaChannelFormatKindUnsigned, 2, 2, false, false}}) {
        const int count = 100;
        Image line(format, count, 1, 1);
        DeviceArray<unsigned char> bytes(line.bytes);
        cudaResourceDesc resource{};
        resource.resType = cudaResourceTypeLinear;
        resource.res.linear.devPtr = bytes.get();
        resource.res.linear.desc = described(format);
        resource.res.linear.sizeInBytes = line.bytes.size();
        Texture texture(resource, format, {cudaAddressModeClamp, false, false});
        std::vector<float4> at;
        for (int i = -3; i < count + 3; ++i)
            at.push_back(make_float4(0, 0, 0, float(i)));
        std::vector<uint4> got = sampled(texture.object, FETCH, is_float(format), at);
        for (size_t i = 0; i < at.size(); ++i) {
            int texel = int(at[i].w);
            bool inside = texel >= 0 && texel < count;
            uint32_t words[2] = {got[i].x, got[i].y};
            for (int channel = 0; channel < 2; ++channel) {
                uint32_t exact = inside ? line.integer(texel, 0, 0, channel) : 0;
                double number = inside ? line.number(texel, 0, 0, channel) : 0;
                compare("fetch", words[channel], exact, number, 1e-6, is_float(format));
            }
        }
    }
    Image plane(FLOAT4, 13, HEIGHT, 1);
    void *rows;
    size_t pitch;
    CUDA_OK(cudaMallocPitch(&rows, &pitch, plane.width * plane.texel(), plane.height));
    CUDA_OK(cudaMemcpy2D(rows, pitch, plane.bytes.data(), plane.width * plane.texel(), plane.width * plane.texel(),
                         plane.height, cudaMemcpyHostToDevice));
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = rows;
    resource.res.pitch2D.desc = described(FLOAT4);
    resource.res.pitch2D.width = plane.width;
    resource.res.pitch2D.height = plane.height;
    resource.res.pitch2D.pitchInBytes = pitch;
    for (bool linear : {false, true}) {
        Mode mode = {cudaAddressModeClamp, linear, false};
        check(plane, mode, PLANE, 2, Texture(resource, FLOAT4, mode).object);
    }
    CUDA_OK(cudaFree(rows));
}

struct Surface {
    cudaArray_t array = nullptr;
    cudaSurfaceObject_t object = 0;
    size_t pitch;
    cudaExtent copied;

    Surface(const Image &image, unsigned flags) : pitch(image.width * image.texel()) {
        cudaChannelFormatDesc format = described(image.format);
        copied = make_cudaExtent(image.width, image.height, image.depth);
        cudaExtent extent = copied;
        extent.height = image.height > 1 ? image.height : 0;
        extent.depth = image.depth > 1 ? image.depth : 0;
        CUDA_OK(cudaMalloc3DArray(&array, &format, extent, flags | cudaArraySurfaceLoadStore));
        move(const_cast<unsigned char *>(image.bytes.data()), true);
        cudaResourceDesc resource{};
        resource.resType = cudaResourceTypeArray;
        resource.res.array.array = array;
        CUDA_OK(cudaCreateSurfaceObject(&object, &resource));
    }

    // To the array, or from it.
    void move(void *bytes, bool to) {
        cudaMemcpy3DParms copy{};
        cudaPitchedPtr memory = make_cudaPitchedPtr(bytes, pitch, copied.width, copied.height);
        if (to) {
            copy.srcPtr = memory;
            copy.dstArray = array;
        } else {
            copy.srcArray = array;
            copy.dstPtr = memory;
        }
        copy.extent = copied;
        copy.kind = to ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
        CUDA_OK(cudaMemcpy3D(&copy));
    }

    template <typename T> std::vector<T> download() {
        std::vector<T> host(copied.width * copied.height * copied.depth * (pitch / copied.width) / sizeof(T));
        move(host.data(), false);
        return host;
    }

    ~Surface() {
        cudaDestroySurfaceObject(object);
        cudaFreeArray(array);
    }
};

void expect(const char *name, bool right) {
    if (!right && ++wrong <= 8)
        std::fprintf(stderr, "%s differs\n", name);
}

void surfaces() {
    Image plane({"int", cudaChannelFormatKindSigned, 4, 1, false, false}, WIDTH, HEIGHT, 1);
    Surface surface(plane, 0);
    DeviceArray<int> out(3 * WIDTH * HEIGHT);
    change_plane<<<1, dim3(WIDTH, HEIGHT)>>>(surface.object);
    read_planes<<<1, dim3(WIDTH, HEIGHT)>>>(surface.object, out.get());
    LAUNCH_OK();
    std::vector<int> got = out.download(), after = surface.download<int>();
    auto stored = [&](int x, int y) { return int(plane.integer(x, y, 0, 0) * 3 + 1); };
    auto inside = [](int number, int count) { return number < 0 ? 0 : number >= count ? count - 1 : number; };
    for (int y = 0; y < HEIGHT; ++y)
        for (int x = 0; x < WIDTH; ++x) {
            int far_x = 2 * x - 8, far_y = 2 * y - 4, near_x = inside(far_x, WIDTH), near_y = inside(far_y, HEIGHT);
            const int *own = &got[3 * (y * WIDTH + x)];
            expect("what is stored", after[y * WIDTH + x] == stored(x, y));
            expect("a plane that is read", own[0] == stored(WIDTH - 1 - x, y));
            expect("the nearest texel", own[1] == stored(near_x, near_y));
            bool is_inside = far_x == near_x && far_y == near_y;
            expect("nothing outside", own[2] == (is_inside ? stored(far_x, far_y) : 0));
        }
    Image line({"uchar4", cudaChannelFormatKindUnsigned, 1, 4, false, false}, WIDTH, 1, 1);
    Image volume({"short", cudaChannelFormatKindSigned, 2, 1, false, false}, WIDTH, HEIGHT, DEPTH);
    Image layers({"float2", cudaChannelFormatKindFloat, 4, 2, false, false}, WIDTH, HEIGHT, LAYERS);
    Surface of_line(line, 0), of_volume(volume, 0), of_layers(layers, cudaArrayLayered);
    change_others<<<1, WIDTH>>>(of_line.object, of_volume.object, of_layers.object);
    LAUNCH_OK();
    std::vector<unsigned char> bytes = of_line.download<unsigned char>();
    std::vector<short> shorts = of_volume.download<short>();
    std::vector<float> floats = of_layers.download<float>();
    for (int x = 0; x < WIDTH; ++x) {
        for (int channel = 0; channel < 4; ++channel) {
            unsigned number = line.integer(x, 0, 0, (channel + 1) % 4) + (channel == 3 ? 200 : 0);
            expect("a line", bytes[4 * x + channel] == (number & 255));
        }
        for (int z = 0; z < DEPTH; ++z)
            for (int y = 0; y < HEIGHT; ++y) {
                short stored_there = short(volume.integer(x, y, z, 0) - 1000 * z);
                expect("a volume", shorts[(z * HEIGHT + y) * WIDTH + x] == stored_there);
            }
        for (int layer = 0; layer < LAYERS; ++layer)
            for (int y = 0; y < HEIGHT; ++y) {
                const float *own = &floats[2 * ((layer * HEIGHT + y) * WIDTH + x)];
                double first = layers.number(x, y, layer, 0), second = layers.number(x, y, layer, 1);
                bool changed = y == layer;
                expect("layers", own[0] == (changed ? second : first) && own[1] == (changed ? first + layer : second));
            }
    }
}

// Parts of arrays, and properties of arrays.
void copies() {
    Image plane({"ushort2", cudaChannelFormatKindUnsigned, 2, 2, false, false}, WIDTH, HEIGHT, 1);
    cudaChannelFormatDesc format = described(plane.format), found;
    const size_t row = WIDTH * 4;
    cudaArray_t first, second;
    CUDA_OK(cudaMallocArray(&first, &format, WIDTH, HEIGHT));
    CUDA_OK(cudaMallocArray(&second, &format, WIDTH, HEIGHT));
    CUDA_OK(cudaMemcpy2DToArray(first, 0, 0, plane.bytes.data(), row, row, HEIGHT, cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy2DToArray(second, 0, 0, plane.bytes.data(), row, row, HEIGHT, cudaMemcpyHostToDevice));
    // Five texels and three rows from (2, 1) of one to (8, 4) of the other.
    CUDA_OK(cudaMemcpy2DArrayToArray(second, 32, 4, first, 8, 1, 20, 3, cudaMemcpyDeviceToDevice));
    std::vector<unsigned char> back(plane.bytes.size()), part(3 * 24);
    CUDA_OK(cudaMemcpy2DFromArrayAsync(back.data(), row, second, 0, 0, row, HEIGHT, cudaMemcpyDeviceToHost, 0));
    CUDA_OK(cudaMemcpy2DFromArray(part.data(), 24, second, 32, 4, 20, 3, cudaMemcpyDeviceToHost));
    CUDA_OK(cudaStreamSynchronize(0));
    for (int y = 0; y < HEIGHT; ++y)
        for (int x = 0; x < WIDTH; ++x) {
            bool copied = x >= 8 && x < 13 && y >= 4 && y < 7;
            const unsigned char *from = &plane.bytes[(copied ? y - 3 : y) * row + (copied ? x - 6 : x) * 4];
            expect("an array", std::memcmp(&back[y * row + x * 4], from, 4) == 0);
            expect("a part", !copied || std::memcmp(&part[(y - 4) * 24 + (x - 8) * 4], from, 4) == 0);
        }
    cudaExtent extent;
    unsigned flags;
    CUDA_OK(cudaArrayGetInfo(&found, &extent, &flags, first));
    bool is_format = found.x == 16 && found.y == 16 && found.z == 0 && found.f == cudaChannelFormatKindUnsigned;
    bool is_extent = extent.width == WIDTH && extent.height == HEIGHT && extent.depth == 0;
    expect("a description", is_format && is_extent && flags == 0);
    CUDA_OK(cudaFreeArray(first));
    CUDA_OK(cudaFreeArray(second));
}

int main() {
    modes();
    cubes();
    gathering();
    memory();
    surfaces();
    copies();
    std::vector<uint4> words(100, make_uint4(3, 0, 0, 1));
    DeviceArray<uint4> in(words);
    DeviceArray<unsigned> sum(1);
    sum.clear();
    total<<<1, 32>>>(in.get(), sum.get(), int(words.size()));
    LAUNCH_OK();
    expect("the sum", sum.download()[0] == 200);
    return finish("textures", wrong == 0, WIDTH * HEIGHT);
}
