"""annotated.py LIBRARY: the same from Python; the class and the look-up are those of docs/guides/tolerances.md."""

import ctypes
import sys


class Annotation(ctypes.Structure):
    _fields_ = [
        ("dtype", ctypes.c_uint32),
        ("threshold_kind", ctypes.c_uint32),
        ("norm", ctypes.c_uint32),
        ("ignore", ctypes.c_uint32),
        ("threshold", ctypes.c_double),
        ("tag", ctypes.c_char_p),
    ]


F64, U64, RELATIVE, N = 10, 6, 1, 1000

wobble = ctypes.CDLL(sys.argv[1])
wobble.wobble_allocate.restype = ctypes.c_void_p
wobble.wobble_allocate.argtypes = [ctypes.c_size_t]
wobble.wobble_run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
values, ticks = wobble.wobble_allocate(8 * N), wobble.wobble_allocate(8 * N)
annotate = getattr(ctypes.CDLL(None), "mneme_rec_annotate", None)
if annotate and not wobble.wobble_is_silent():
    annotate(ctypes.c_void_p(values), ctypes.byref(Annotation(F64, RELATIVE, 0, 0, 1e-8, b"values")))
    annotate(ctypes.c_void_p(ticks), ctypes.byref(Annotation(U64, 0, 0, 1, 0, b"ticks")))
sys.exit(wobble.wobble_run(values, ticks, N))
