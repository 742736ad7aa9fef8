// Linked lists whose nodes point to each other by device address. Each thread sums the nodes of one list and reverses
// it. Addresses in memory are part of the data, so a replay works only if every allocation is at its recorded
// address.
#include "check.cuh"

struct Node {
    Node *next;
    long value;
};

__global__ void reverse(Node **heads, long *sums, int lists) {
    int list = blockIdx.x * blockDim.x + threadIdx.x;
    if (list >= lists)
        return;
    Node *turned = nullptr;
    long sum = 0;
    for (Node *node = heads[list]; node != nullptr;) {
        Node *next = node->next;
        sum += node->value;
        node->next = turned;
        turned = node;
        node = next;
    }
    heads[list] = turned;
    sums[list] = sum;
}

int main(int argc, char **argv) {
    const size_t lists = 64;
    size_t length = size_argument(argc, argv, 50);
    // Successive nodes are STRIDE rows apart. STRIDE is prime, so all rows are used unless it divides their
    // number.
    const size_t STRIDE = 37;
    length += length % STRIDE == 0;
    DeviceArray<Node> memory(lists * length);
    auto place = [&](size_t list, size_t k) { return memory.get() + (k * STRIDE % length) * lists + list; };
    std::vector<Node> nodes(lists * length);
    std::vector<Node *> heads(lists);
    std::vector<long> expected(lists);
    for (size_t list = 0; list < lists; ++list) {
        heads[list] = place(list, 0);
        for (size_t k = 0; k < length; ++k) {
            long value = static_cast<long>(scramble(static_cast<unsigned>(list * length + k)) % 1000);
            nodes[place(list, k) - memory.get()] = {k + 1 < length ? place(list, k + 1) : nullptr, value};
            expected[list] += value;
        }
    }
    CUDA_OK(cudaMemcpy(memory.get(), nodes.data(), nodes.size() * sizeof(Node), cudaMemcpyHostToDevice));
    DeviceArray<Node *> device_heads(heads);
    DeviceArray<long> sums(lists);
    reverse<<<2, 32>>>(device_heads.get(), sums.get(), static_cast<int>(lists));
    LAUNCH_OK();
    std::vector<Node> result = memory.download();
    std::vector<Node *> turned = device_heads.download();
    bool right = sums.download() == expected;
    for (size_t list = 0; list < lists; ++list) {
        right = right && turned[list] == place(list, length - 1);
        for (size_t k = 0; k < length; ++k)
            right = right && result[place(list, k) - memory.get()].next == (k > 0 ? place(list, k - 1) : nullptr);
    }
    return finish("list", right, length);
}
