// Lists that begin in device variables. Kernels reach them only through addresses in memory and never name them.
#include "check.cuh"

struct Node {
    Node *next;
    long value;
};

__device__ Node head;
__device__ Node heads[3];
__constant__ long factors[2] = {3, 5};

__global__ void total(Node *const *lists, int count, long *out) {
    long sum = 0;
    for (int i = 0; i < count; ++i)
        for (const Node *node = lists[i]; node; node = node->next)
            sum = sum * 3 + node->value;
    *out = sum;
}

__global__ void advance(Node **lists, const long *const *factor) {
    for (Node *node = lists[threadIdx.x]; node; node = node->next)
        node->value = node->value * **factor + threadIdx.x;
}

template <class T> T *address_of(const T &symbol) {
    void *address = nullptr;
    CUDA_OK(cudaGetSymbolAddress(&address, symbol));
    return static_cast<T *>(address);
}

int main() {
    Node *first = address_of(head), *second = address_of(heads[0]) + 1;
    DeviceArray<Node *> lists(std::vector<Node *>{first, second});
    DeviceArray<const long *> factor(std::vector<const long *>{address_of(factors[0]) + 1});
    DeviceArray<Node> rest(2);
    Node nodes[] = {{nullptr, 37}, {rest.get(), 11}, {rest.get() + 1, 5}, {nullptr, 7}};
    CUDA_OK(cudaMemcpy(rest.get(), nodes, 2 * sizeof(Node), cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(first, &nodes[2], sizeof(Node), cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(second, &nodes[3], sizeof(Node), cudaMemcpyHostToDevice));
    DeviceArray<long> out(1);
    auto sum = [&] {
        total<<<1, 1>>>(lists.get(), 2, out.get());
        LAUNCH_OK();
        return out.download()[0];
    };
    bool right = sum() == ((5 * 3 + 11) * 3 + 37) * 3 + 7;
    advance<<<1, 2>>>(lists.get(), factor.get());
    LAUNCH_OK();
    right = right && sum() == ((25 * 3 + 55) * 3 + 185) * 3 + 36;
    return finish("heads", right, 2);
}
