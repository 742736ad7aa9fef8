// The library that doubles.
#define FACTOR 2
#include "../check.cuh"
#include "library.cuh"

extern "C" __attribute__((visibility("default"))) unsigned long long double_all(int *device_values, int n) { return scale_all(device_values, n); }
