// A kernel with a number of rounds of arithmetic as an argument, so the caller chooses its time.
#include "check.cuh"

__global__ void spin(unsigned long long *words, unsigned long long rounds) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long word = words[i];
    for (unsigned long long round = 0; round < rounds; ++round)
        word = (word ^ word >> 7) * 0x9e3779b97f4a7c15ull;
    words[i] = word;
}

int main(int argc, char **argv) {
    size_t rounds = size_argument(argc, argv, 100);
    std::vector<unsigned long long> words(128);
    for (unsigned i = 0; i < words.size(); ++i)
        words[i] = scramble(i);
    DeviceArray<unsigned long long> device_words(words);
    spin<<<2, 64>>>(device_words.get(), rounds);
    LAUNCH_OK();
    for (unsigned long long &word : words)
        for (size_t round = 0; round < rounds; ++round)
            word = (word ^ word >> 7) * 0x9e3779b97f4a7c15ull;
    return finish("spin", device_words.download() == words, rounds);
}
