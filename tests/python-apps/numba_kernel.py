"""A kernel that Numba compiles."""

import numpy

# Numba's CUDA target as of 0.68 asks for a name that NumPy has dropped.
if not hasattr(numpy, "row_stack"):
    numpy.row_stack = numpy.vstack

from numba import cuda  # noqa: E402


@cuda.jit
def numba_axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


x = numpy.arange(10_000, dtype=numpy.float64)
y = cuda.to_device(numpy.ones_like(x))
numba_axpy[40, 256](2.0, cuda.to_device(x), y)
assert numpy.array_equal(y.copy_to_host(), 2 * x + 1)
print("numba_kernel: ok")
