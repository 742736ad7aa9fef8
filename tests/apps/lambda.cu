// Loops written as lambdas, as in portability layers: a single kernel template is launched with the body of each call
// site. Every body has an unnamed type, captures addresses and scalars by value, and makes a separate kernel. One goes
// through a second layer of templates, and one is a reduction.
#include "check.cuh"

template <int BLOCK_SIZE> struct Policy {
    static constexpr int block_size = BLOCK_SIZE;
};

template <typename POLICY, typename BODY> __global__ __launch_bounds__(POLICY::block_size) void forall_kernel(BODY body, long begin, long length) {
    long i = static_cast<long>(blockIdx.x) * POLICY::block_size + threadIdx.x;
    if (i < length)
        body(begin + i);
}

template <typename POLICY, typename BODY> void forall(long begin, long end, BODY &&body) {
    auto copy = body;
    forall_kernel<POLICY><<<blocks_for(end - begin, POLICY::block_size), POLICY::block_size>>>(copy, begin, end - begin);
    CUDA_OK(cudaGetLastError());
}

// A view with an extent: a captured object with more than a pointer.
template <typename T> struct View {
    T *data;
    long columns;
    __host__ __device__ T &operator()(long row, long column) const { return data[row * columns + column]; }
};

// Loops over two dimensions with a lambda that calls the caller's lambda.
template <typename POLICY, typename BODY> void forall_2d(long rows, long columns, BODY body) {
    forall<POLICY>(0, rows * columns, [=] __device__(long i) { body(i / columns, i % columns); });
}

int main(int argc, char **argv) {
    long n = static_cast<long>(size_argument(argc, argv, 2000));
    const long columns = 10, rows = n / columns;
    DeviceArray<long> values(n), table(rows * columns);
    DeviceArray<unsigned long long> total(1);
    values.clear();
    total.clear();
    long *x = values.get();
    unsigned long long *sum = total.get();
    View<long> view{table.get(), columns};
    int factor = 3;

    forall<Policy<128>>(0, n, [=] __device__(long i) { x[i] = i * factor; });
    forall<Policy<64>>(1, n - 1, [=] __device__(long i) { x[i] += 1000; });
    forall_2d<Policy<256>>(rows, columns, [=] __device__(long row, long column) { view(row, column) = x[row * columns + column] - column; });
    forall<Policy<128>>(0, rows * columns, [=] __device__(long i) { atomicAdd(sum, static_cast<unsigned long long>(view(i / columns, i % columns))); });
    CUDA_OK(cudaDeviceSynchronize());

    bool right = true;
    unsigned long long expected = 0;
    std::vector<long> result = values.download(), tabled = table.download();
    for (long i = 0; i < n; ++i) {
        long value = i * factor + (i > 0 && i < n - 1 ? 1000 : 0);
        right = right && result[i] == value;
        if (i < rows * columns) {
            right = right && tabled[i] == value - i % columns;
            expected += static_cast<unsigned long long>(value - i % columns);
        }
    }
    return finish("lambda", right && total.download()[0] == expected, n);
}
