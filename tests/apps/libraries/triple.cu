// The library that triples.
#define FACTOR 3
#include "../check.cuh"
#include "library.cuh"

extern "C" __attribute__((visibility("default"))) unsigned long long triple_all(int *device_values, int n) { return scale_all(device_values, n); }
