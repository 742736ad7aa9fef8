// The plug-in that adds.
static __device__ long operation(long value, int i) { return value + i; }
#include "plugin.cuh"
