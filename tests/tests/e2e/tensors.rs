//! Tests of programs built by nvcc with `wmma` and eight-bit floats.

use crate::nvcc::verify_text;

/// All half-precision values and codes, and floats of all magnitudes, compared with NVIDIA's header on the host.
#[test]
fn floats_of_eight_bits_are_those_of_the_host() {
    let text = r#"
        #include <cuda_fp8.h>
        #include <cstdio>
        #include <cstring>
        #include <vector>
        __host__ __device__ float number(unsigned i) {
            unsigned bits = i * 65537u + (i >> 3);
            float x;
            memcpy(&x, &bits, 4);
            return x;
        }
        template <__nv_fp8_interpretation_t Kind> struct OfHalf {
            __host__ __device__ static unsigned short get(unsigned i) {
                __half_raw x;
                x.x = i;
                return __nv_cvt_halfraw_to_fp8(x, __NV_SATFINITE, Kind);
            }
        };
        template <__nv_fp8_interpretation_t Kind> struct OfFloats {
            __host__ __device__ static unsigned short get(unsigned i) {
                return __nv_cvt_float2_to_fp8x2(make_float2(number(i), number(i + 7)), __NV_SATFINITE, Kind);
            }
        };
        template <__nv_fp8_interpretation_t Kind> struct OfCode {
            __host__ __device__ static unsigned short get(unsigned i) { return __nv_cvt_fp8_to_halfraw(i, Kind).x; }
        };
        template <typename T> __global__ void convert(unsigned short *out) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            out[i] = T::get(i);
        }
        template <typename T> void check(const char *name, int n) {
            unsigned short *out;
            std::vector<unsigned short> back(n);
            cudaMalloc(&out, 2 * n);
            cudaMemset(out, 0, 2 * n);
            convert<T><<<n / 256, 256>>>(out);
            cudaMemcpy(back.data(), out, 2 * n, cudaMemcpyDeviceToHost);
            int wrong = 0;
            for (int i = 0; i < n; ++i) wrong += back[i] != T::get(i);
            std::printf("%s: %d wrong, %s\n", name, wrong, cudaGetErrorName(cudaGetLastError()));
        }
        int main() {
            check<OfHalf<__NV_E4M3>>("e4m3 of halves", 65536);
            check<OfHalf<__NV_E5M2>>("e5m2 of halves", 65536);
            check<OfFloats<__NV_E4M3>>("e4m3 of floats", 65536);
            check<OfFloats<__NV_E5M2>>("e5m2 of floats", 65536);
            check<OfCode<__NV_E4M3>>("halves of e4m3", 256);
            check<OfCode<__NV_E5M2>>("halves of e5m2", 256);
        }"#;
    verify_text("floats_of_eight_bits_are_those_of_the_host", text, 6);
}

/// All element types and shapes, in both layouts, compared with a loop over small integers.
#[test]
fn fragments_are_multiplied() {
    let text = r#"
        #include <cuda_bf16.h>
        #include <cuda_fp16.h>
        #include <mma.h>
        #include <cstdio>
        #include <type_traits>
        #include <vector>
        using namespace nvcuda;
        template <typename T> T element(int i) {
            int value = (i * 7 + i / 5) % 11 - (std::is_same<T, unsigned char>::value ? 0 : 4);
            return T(float(value));
        }
        template <typename T> struct Stored { using type = T; };
        template <> struct Stored<wmma::precision::tf32> { using type = float; };
        template <typename F, typename T> __device__ void round(F &, const T *) {}
        template <typename F> __device__ void round(F &fragment, const float *) {
            for (auto &x : fragment.x) x = wmma::__float_to_tf32(x);
        }
        // The factors go through shared memory, or directly; d = 2 (a b + c).
        template <int M, int N, int K, typename T, typename C, typename D, typename LA, typename LB>
        __global__ void multiply(const typename Stored<T>::type *a, const typename Stored<T>::type *b, const C *c, D *d,
                                 int lda, int ldb, int ldc, bool by_columns) {
            using S = typename Stored<T>::type;
            __shared__ __align__(32) S near[48 * 48];
            for (int i = threadIdx.x; i < 48 * 48; i += 32) near[i] = a[i];
            __syncwarp();
            wmma::fragment<wmma::matrix_a, M, N, K, T, LA> left;
            wmma::fragment<wmma::matrix_b, M, N, K, T, LB> right;
            wmma::fragment<wmma::accumulator, M, N, K, C> addend;
            wmma::fragment<wmma::accumulator, M, N, K, D> sum;
            auto layout = by_columns ? wmma::mem_col_major : wmma::mem_row_major;
            wmma::load_matrix_sync(left, near, lda);
            wmma::load_matrix_sync(right, b, ldb);
            wmma::load_matrix_sync(addend, c, ldc, layout);
            round(left, a);
            round(right, b);
            wmma::mma_sync(sum, left, right, addend);
            for (int i = 0; i < sum.num_elements; ++i) sum.x[i] = sum.x[i] + sum.x[i];
            wmma::store_matrix_sync(d, sum, ldc, layout);
        }
        template <typename T> std::vector<T> numbers(int first) {
            std::vector<T> all(48 * 48);
            for (size_t i = 0; i < all.size(); ++i) all[i] = element<T>(int(i) + first);
            return all;
        }
        template <typename T> T *on_device(const std::vector<T> &values) {
            T *pointer;
            cudaMalloc(&pointer, values.size() * sizeof(T));
            cudaMemcpy(pointer, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
            return pointer;
        }
        template <typename L> int at(int row, int column, int stride) {
            return std::is_same<L, wmma::row_major>::value ? row * stride + column : column * stride + row;
        }
        template <int M, int N, int K, typename T, typename C, typename D, typename LA, typename LB>
        void check(const char *name, bool by_columns) {
            using S = typename Stored<T>::type;
            auto a = numbers<S>(0), b = numbers<S>(3);
            auto c = numbers<C>(5);
            std::vector<D> d(48 * 48, D(0.0f));
            int lda = 32, ldb = 48, ldc = 40;
            D *out = on_device(d);
            multiply<M, N, K, T, C, D, LA, LB><<<1, 32>>>(on_device(a), on_device(b), on_device(c), out, lda, ldb, ldc, by_columns);
            cudaMemcpy(d.data(), out, d.size() * sizeof(D), cudaMemcpyDeviceToHost);
            int wrong = 0;
            for (int i = 0; i < M; ++i)
                for (int j = 0; j < N; ++j) {
                    int place = by_columns ? j * ldc + i : i * ldc + j;
                    double sum = double(float(c[place]));
                    for (int k = 0; k < K; ++k)
                        sum += double(float(a[at<LA>(i, k, lda)])) * double(float(b[at<LB>(k, j, ldb)]));
                    wrong += double(float(d[place])) != 2 * sum;
                }
            std::printf("%s %d %d %d: %d wrong, %s\n", name, M, N, K, wrong, cudaGetErrorName(cudaGetLastError()));
        }
        template <typename T, typename C, typename D> void shapes(const char *name) {
            using row = wmma::row_major;
            using column = wmma::col_major;
            check<16, 16, 16, T, C, D, row, column>(name, false);
            check<8, 32, 16, T, C, D, column, row>(name, true);
            check<32, 8, 16, T, C, D, row, row>(name, false);
        }
        int main() {
            using row = wmma::row_major;
            using column = wmma::col_major;
            shapes<__half, float, float>("halves");
            shapes<__half, __half, float>("halves to floats");
            shapes<__half, __half, __half>("halves to halves");
            shapes<__nv_bfloat16, float, float>("bfloats");
            shapes<signed char, int, int>("signed bytes");
            shapes<unsigned char, int, int>("bytes");
            check<16, 16, 8, wmma::precision::tf32, float, float, row, column>("tf32", false);
            check<16, 16, 8, wmma::precision::tf32, float, float, column, row>("tf32", true);
            check<8, 8, 4, double, double, double, row, column>("doubles", false);
            check<8, 8, 4, double, double, double, column, row>("doubles", true);
        }"#;
    verify_text("fragments_are_multiplied", text, 22);
}
