// Managed memory: a list whose nodes are built by host and device in turn, with pointers stored in it.
#include "check.cuh"

struct Node {
    Node *next;
    long value;
};

__global__ void increment(Node *head) {
    for (Node *node = head; node; node = node->next)
        node->value += 1000;
}

int main(int argc, char **argv) {
    int n = static_cast<int>(size_argument(argc, argv, 500));
    Node *nodes;
    CUDA_OK(cudaMallocManaged(reinterpret_cast<void **>(&nodes), n * sizeof(Node)));
    for (int i = 0; i < n; ++i)
        nodes[i] = {i + 1 < n ? &nodes[i + 1] : nullptr, static_cast<long>(scramble(i) % 1000)};
    bool right = true;
    for (int round = 1; round <= 2; ++round) {
        increment<<<1, 1>>>(nodes);
        LAUNCH_OK();
        for (int i = 0; i < n; ++i)
            right = right && nodes[i].value == static_cast<long>(scramble(i) % 1000) + 1000 * round;
    }
    CUDA_OK(cudaFree(nodes));
    return finish("managed", right, n);
}
