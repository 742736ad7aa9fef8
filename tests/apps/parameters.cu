// All kinds of parameter lists: scalars, vectors, pointers and structures by value, up to 4 KiB, with alignments up to
// 64 bytes. The position of a parameter with such an alignment depends on the architecture.
#include "check.cuh"

template <size_t Size, size_t Align> struct alignas(Align) Bytes {
    static_assert(Size % Align == 0, "no padding, which has no value");
    unsigned char bytes[Size];
};

struct Eight {
    double values[8];
};

struct alignas(64) Coefficients {
    double a, b, c, d, e, f, g, h;
};

struct Nested {
    Bytes<32, 32> first[2];
    const unsigned *data;
    int pairs[3][2];
    Bytes<32, 4> last;
};
static_assert(sizeof(Nested) == 128, "no padding");

template <class T> __host__ __device__ unsigned digest(unsigned sum, const T &value) {
    const unsigned char *bytes = reinterpret_cast<const unsigned char *>(&value);
    for (size_t i = 0; i < sizeof(T); ++i)
        sum = sum * 31 + bytes[i];
    return sum;
}

template <class... T> __host__ __device__ unsigned digests(const T &...values) {
    unsigned sum = 1;
    ((sum = digest(sum, values)), ...);
    return sum;
}

__global__ void scalars(unsigned *out, char a, short b, int c, long long d, float e, double f, bool g, unsigned char h) {
    out[threadIdx.x] = digests(a, b, c, d, e, f, g, h) + threadIdx.x;
}

__global__ void vectors(char3 a, unsigned *out, float4 b, short2 c, double2 d, uchar4 e, float3 f, longlong2 g, char h) {
    out[threadIdx.x] = digests(a.x, a.y, a.z, b, c, d, e, f, g, h) + threadIdx.x;
}

__global__ void pointers(const unsigned *a, unsigned *out, const unsigned *const *b, unsigned count) {
    unsigned sum = 0;
    for (unsigned i = 0; i < count; ++i)
        sum = sum * 31 + a[i] + (*b)[i];
    out[threadIdx.x] = sum + threadIdx.x;
}

__global__ void single(Bytes<1, 1> a, unsigned *out, Bytes<3, 1> b, Bytes<6, 2> c, Bytes<5, 1> d) {
    out[threadIdx.x] = digests(a, b, c, d) + threadIdx.x;
}

// The parameters of the solver that revealed this: seven pointers, two structures of eight doubles, another pointer, a
// number.
__global__ void solver(double *a, double *b, double *c, double *d, double *e, double *f, unsigned *out, Coefficients s, Coefficients t,
                       double const *p, double x) {
    unsigned i = threadIdx.x;
    a[i] = s.a + t.h * p[i];
    b[i] = s.b - t.g;
    c[i] = s.c + t.f;
    d[i] = s.d - t.e;
    e[i] = s.e + t.d;
    f[i] = s.f - x;
    out[i] = digests(s, t, x) + i;
}

__global__ void natural(double *a, double *b, double *c, unsigned *out, Eight s, Eight t, double const *p, double x) {
    unsigned i = threadIdx.x;
    a[i] = s.values[i % 8] * x;
    b[i] = t.values[(i + 3) % 8];
    c[i] = p[i];
    out[i] = digests(s, t, x) + i;
}

__global__ void aligned16(char a, Bytes<48, 16> b, unsigned *out, Bytes<16, 16> c, short d) {
    out[threadIdx.x] = digests(a, b, c, d) + threadIdx.x;
}

__global__ void aligned32(unsigned *out, Bytes<32, 32> a, char b, Bytes<96, 32> c, int d, const unsigned *last) {
    out[threadIdx.x] = digests(a, b, c, d) + last[threadIdx.x];
}

__global__ void aligned64(unsigned *out, char a, Bytes<64, 64> b, char c, Bytes<192, 64> d, const unsigned *last) {
    out[threadIdx.x] = digests(a, b, c, d) + last[threadIdx.x];
}

__global__ void nested(int a, Nested b, unsigned *out, Nested c, float d) {
    out[threadIdx.x] = digests(a, b.first, b.pairs, b.last, c.first, c.pairs, c.last, d) + b.data[threadIdx.x] * c.data[threadIdx.x];
}

__global__ void large(unsigned *out, Bytes<1024, 8> a, int b, Bytes<2048, 16> c, unsigned pick) {
    out[threadIdx.x] = digests(a, b, c) + a.bytes[(pick + threadIdx.x) % 1024] + c.bytes[(pick + threadIdx.x) % 2048];
}

__global__ void full(unsigned *out, Bytes<4032, 32> a, unsigned pick) {
    out[threadIdx.x] = digests(a) + a.bytes[(pick + threadIdx.x) % 4032];
}

// The kernel changes its own copy.
__global__ void changed(unsigned *out, Bytes<256, 64> a, const unsigned *last) {
    a.bytes[threadIdx.x] ^= 0x5a;
    out[threadIdx.x] = digests(a) + last[threadIdx.x];
}

static unsigned seed = 1;

template <class T> T filled() {
    T value;
    for (size_t i = 0; i < sizeof(T); ++i)
        reinterpret_cast<unsigned char *>(&value)[i] = static_cast<unsigned char>(scramble(seed++));
    return value;
}

int main() {
    constexpr unsigned n = 32;
    bool right = true;
    std::vector<unsigned> words(n);
    std::vector<double> numbers(n);
    for (unsigned i = 0; i < n; ++i) {
        words[i] = scramble(i);
        numbers[i] = unit_float(i);
    }
    DeviceArray<unsigned> data(words), out(n);
    DeviceArray<const unsigned *> place(std::vector<const unsigned *>{data.get()});
    DeviceArray<double> doubles(numbers), a(n), b(n), c(n), d(n), e(n), f(n);
    auto check = [&](auto expected) {
        LAUNCH_OK();
        std::vector<unsigned> result = out.download();
        for (unsigned i = 0; i < n; ++i)
            right = right && result[i] == expected(i);
        out.clear();
    };

    scalars<<<1, n>>>(out.get(), 'a', -2, 3, -4, 5.5f, -6.25, true, 200);
    check([](unsigned i) { return digests('a', short(-2), 3, -4LL, 5.5f, -6.25, true, (unsigned char)(200)) + i; });

    auto f4 = make_float4(1, 2, 3, 4);
    auto f3 = make_float3(5, 6, 7);
    auto d2 = make_double2(8, 9);
    auto l2 = make_longlong2(-1, 1LL << 40);
    vectors<<<1, n>>>(make_char3(1, 2, 3), out.get(), f4, make_short2(-5, 6), d2, make_uchar4(7, 8, 9, 10), f3, l2, 'z');
    check([&](unsigned i) {
        return digests(char(1), char(2), char(3), f4, make_short2(-5, 6), d2, make_uchar4(7, 8, 9, 10), f3, l2, 'z') + i;
    });

    pointers<<<1, n>>>(data.get(), out.get(), place.get(), n);
    check([&](unsigned i) {
        unsigned sum = 0;
        for (unsigned word : words)
            sum = sum * 31 + word + word;
        return sum + i;
    });

    auto b1 = filled<Bytes<1, 1>>();
    auto b3 = filled<Bytes<3, 1>>();
    auto b2 = filled<Bytes<6, 2>>();
    auto b5 = filled<Bytes<5, 1>>();
    single<<<1, n>>>(b1, out.get(), b3, b2, b5);
    check([&](unsigned i) { return digests(b1, b3, b2, b5) + i; });

    Coefficients s{1, 2, 3, 4, 5, 6, 7, 8}, t{9, 10, 11, 12, 13, 14, 15, 16};
    solver<<<1, n>>>(a.get(), b.get(), c.get(), d.get(), e.get(), f.get(), out.get(), s, t, doubles.get(), 2.5);
    check([&](unsigned i) { return digests(s, t, 2.5) + i; });
    auto product = a.download();
    for (unsigned i = 0; i < n; ++i)
        right = right && product[i] == 1 + 16 * numbers[i];

    Eight u{{1, 2, 3, 4, 5, 6, 7, 8}}, v{{-1, -2, -3, -4, -5, -6, -7, -8}};
    natural<<<1, n>>>(a.get(), b.get(), c.get(), out.get(), u, v, doubles.get(), 2.5);
    check([&](unsigned i) { return digests(u, v, 2.5) + i; });

    auto c48 = filled<Bytes<48, 16>>();
    auto c16 = filled<Bytes<16, 16>>();
    aligned16<<<1, n>>>('x', c48, out.get(), c16, 77);
    check([&](unsigned i) { return digests('x', c48, c16, short(77)) + i; });

    auto d32 = filled<Bytes<32, 32>>();
    auto d96 = filled<Bytes<96, 32>>();
    aligned32<<<1, n>>>(out.get(), d32, 'y', d96, 99, data.get());
    check([&](unsigned i) { return digests(d32, 'y', d96, 99) + words[i]; });

    auto e64 = filled<Bytes<64, 64>>();
    auto e192 = filled<Bytes<192, 64>>();
    aligned64<<<1, n>>>(out.get(), 'p', e64, 'q', e192, data.get());
    check([&](unsigned i) { return digests('p', e64, 'q', e192) + words[i]; });

    auto n1 = filled<Nested>();
    auto n2 = filled<Nested>();
    n1.data = n2.data = data.get();
    nested<<<1, n>>>(5, n1, out.get(), n2, 1.5f);
    check([&](unsigned i) {
        return digests(5, n1.first, n1.pairs, n1.last, n2.first, n2.pairs, n2.last, 1.5f) + words[i] * words[i];
    });

    auto l1024 = filled<Bytes<1024, 8>>();
    auto l2048 = filled<Bytes<2048, 16>>();
    large<<<1, n>>>(out.get(), l1024, -7, l2048, 1010);
    check([&](unsigned i) { return digests(l1024, -7, l2048) + l1024.bytes[(1010 + i) % 1024] + l2048.bytes[(1010 + i) % 2048]; });

    auto f4032 = filled<Bytes<4032, 32>>();
    full<<<1, n>>>(out.get(), f4032, 4020);
    check([&](unsigned i) { return digests(f4032) + f4032.bytes[(4020 + i) % 4032]; });

    auto g256 = filled<Bytes<256, 64>>();
    changed<<<1, n>>>(out.get(), g256, data.get());
    check([&](unsigned i) {
        auto copy = g256;
        copy.bytes[i] ^= 0x5a;
        return digests(copy) + words[i];
    });
    return finish("parameters", right, n);
}
