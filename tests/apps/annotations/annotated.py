"""annotated.py LIBRARY: the same from Python, with arrays that share their memory as those of PyTorch, CuPy and JAX do."""

import ctypes
import sys
from typing import Any

import mneme

N = 1000


class Array:
    """Device memory with an element type, such as "<f8"."""

    def __init__(self, address: int, typestr: str, length: int) -> None:
        self.__cuda_array_interface__: dict[str, Any] = {
            "data": (address, False),
            "shape": (length,),
            "typestr": typestr,
            "version": 3,
        }


wobble = ctypes.CDLL(sys.argv[1])
wobble.wobble_allocate.restype = ctypes.c_void_p
wobble.wobble_allocate.argtypes = [ctypes.c_size_t]
wobble.wobble_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
wobble.wobble_run_pool.argtypes = [ctypes.c_void_p, ctypes.c_int]
values, ticks, pool = (wobble.wobble_allocate(size * N) for size in (8, 8, 20))
if not wobble.wobble_is_silent():
    for field in (values, pool):
        mneme.annotate(Array(field, "<f8", N), relative=1e-8, tag="values")
    for field in (ticks, pool + 8 * N):
        mneme.annotate(Array(field, "<u8", N), ignore=True, tag="ticks")
    mneme.annotate(Array(pool + 16 * N, "<u4", N), tag="numbers")
sys.exit(wobble.wobble_run(values, ticks, N) or wobble.wobble_run_pool(pool, N))
