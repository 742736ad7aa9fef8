"""Names and tolerances for device memory, declared by the program that is recorded."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, Optional

DTYPES = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "f32", "f64")
NORMS = ("none", "l1", "l2", "linf")


class _Annotation(ctypes.Structure):
    """``struct mneme_annotation`` of ``mneme.h``."""

    _fields_ = [
        ("dtype", ctypes.c_uint32),
        ("threshold_kind", ctypes.c_uint32),
        ("norm", ctypes.c_uint32),
        ("ignore", ctypes.c_uint32),
        ("threshold", ctypes.c_double),
        ("tag", ctypes.c_char_p),
    ]


class _DLTensor(ctypes.Structure):
    """``DLTensor``, with which a ``DLManagedTensor`` begins."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def annotate(
    tensor: Any,
    *,
    absolute: Optional[float] = None,
    relative: Optional[float] = None,
    ulp: Optional[float] = None,
    norm: str = "none",
    tag: str = "",
    dtype: Optional[str] = None,
    ignore: bool = False,
    remove: bool = False,
) -> bool:
    """Declares how the memory of a tensor is compared in replays, for launches that are recorded after this call.

    The tensor is one of PyTorch, CuPy, JAX or Numba, or anything else with ``__cuda_array_interface__`` or
    ``__dlpack__``. Without a threshold, its elements have to be equal. The annotation is of the memory, not of the
    object: it lasts until the memory is freed or annotated again. Allocators that cache memory give it to other
    tensors before that, so annotate these too, or pass ``remove=True``.

    Returns whether a recorder accepted it: False if the program is not recorded, or if the memory is not device memory
    of this process; the recorder says so on standard error.

    >>> mneme.annotate(weights, relative=1e-5, tag="weights")                          # doctest: +SKIP
    >>> mneme.annotate(scratch, ignore=True)                                           # doctest: +SKIP
    """
    limits = [(kind, limit) for kind, limit in enumerate((absolute, relative, ulp)) if limit is not None]
    if len(limits) + ignore + remove > 1:
        raise ValueError("name one of absolute, relative, ulp, ignore and remove")
    kind, threshold = limits[0] if limits else (0, 0.0)
    if not (threshold >= 0 and math.isfinite(threshold)):
        raise ValueError(f"a threshold of {threshold} makes no sense; it has to be a finite number of at least 0")
    if norm not in NORMS:
        raise ValueError(f"'{norm}' is not a norm; use {', '.join(NORMS)}")
    if dtype is not None and dtype not in DTYPES:
        raise ValueError(f"'{dtype}' is not a type; use {', '.join(DTYPES)}")
    address, size, own = _memory(tensor)
    dtype = dtype or own
    if dtype not in DTYPES:
        if not (ignore or remove):
            raise TypeError(f"tolerances have no type for elements of {dtype}; pass dtype, such as dtype='u16'")
        dtype = "u8"
    recorder = getattr(ctypes.CDLL(None), "mneme_rec_annotate_range", None)
    if recorder is None:
        return False
    given = _Annotation(DTYPES.index(dtype), kind, NORMS.index(norm), ignore, threshold, tag.encode())
    recorder.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(_Annotation))
    return bool(recorder(address, size, None if remove else ctypes.byref(given)) == 0)


def _memory(tensor: Any) -> tuple[int, int, str]:
    """Address, size in bytes and element type of a tensor."""
    kind = type(tensor).__name__
    # PyTorch exports no tensor that requires a gradient.
    tensor = tensor.detach() if hasattr(tensor, "detach") else tensor
    try:
        interface = getattr(tensor, "__cuda_array_interface__", None)
    except Exception:  # PyTorch raises for types that the interface lacks, such as bfloat16.
        interface = None
    if interface is not None:
        address, shape, strides = interface["data"][0], interface["shape"], interface.get("strides")
        # Such as "<f4".
        code, bits = interface["typestr"][1], 8 * int(interface["typestr"][2:])
        strides = None if strides is None else [8 * stride / bits for stride in strides]
    elif hasattr(tensor, "__dlpack__"):
        capsule = tensor.__dlpack__()
        found = _tensor_of(capsule)
        address, shape = (found.data or 0) + found.byte_offset, found.shape[: found.ndim]
        strides = found.strides[: found.ndim] if found.strides else None
        code = {0: "i", 1: "u", 2: "f", 4: "bfloat", 5: "c", 6: "b"}.get(found.code, f"type {found.code} of DLPack, ")
        bits = found.bits * found.lanes
    else:
        raise TypeError(f"{kind} has neither __cuda_array_interface__ nor __dlpack__")
    if not _is_dense(shape, strides):
        raise ValueError(f"the elements of this {kind} are not contiguous in memory (shape {tuple(shape)})")
    size = math.prod(shape) * bits // 8
    # A complex number is two numbers, and a truth value is a byte.
    return address, size, f"f{bits // 2}" if code == "c" else f"{'u' if code == 'b' else code}{bits}"


def _tensor_of(capsule: Any) -> _DLTensor:
    """The description in a capsule, which keeps its memory."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return _DLTensor.from_address(pointer(capsule, b"dltensor"))


def _is_dense(shape: Sequence[int], strides: Optional[Sequence[float]]) -> bool:
    """Whether elements fill their memory, in any order of the dimensions. Strides are numbers of elements."""
    if strides is None or 0 in shape:
        return True
    expected = 1
    for stride, length in sorted((stride, length) for stride, length in zip(strides, shape) if length > 1):
        if stride != expected:
            return False
        expected *= length
    return True
