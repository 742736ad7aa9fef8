"""What ``mneme.annotate`` passes to a recorder, which a library stands in for here."""

from __future__ import annotations

import ctypes
from typing import Any, Optional

import numpy
import pytest

import mneme
from mneme import annotation

ADDRESS = 0x1000_0000_0000


class Array:
    """An array on a device that shares its memory by ``__cuda_array_interface__``."""

    def __init__(self, shape: tuple[int, ...], typestr: str = "<f4", strides: Optional[tuple[int, ...]] = None) -> None:
        self.__cuda_array_interface__ = {
            "data": (ADDRESS, False),
            "shape": shape,
            "typestr": typestr,
            "strides": strides,
            "version": 3,
        }


class Exported:
    """An array that has only ``__dlpack__``."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self) -> Any:
        return self.array.__dlpack__()


class Recorder:
    """Its ``mneme_rec_annotate_range`` notes the calls."""

    def __init__(self, status: int = 0) -> None:
        self.calls: list[tuple[Any, ...]] = []
        # ctypes passes pointers to functions of Python as numbers.
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)

        def note(address: int, size: int, given: Optional[int]) -> int:
            if given is None:
                self.calls.append((address, size, None))
            else:
                it = annotation._Annotation.from_address(given)
                codes = (it.dtype, it.threshold_kind, it.norm, it.ignore)
                self.calls.append((address, size, *codes, it.threshold, it.tag))
            return status

        self.mneme_rec_annotate_range = kind(note)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(ctypes, "CDLL", lambda _: recorder)
    return recorder


def test_an_annotation_reaches_the_recorder(recorder: Recorder) -> None:
    assert mneme.annotate(Array((3, 5)), relative=1e-5, norm="l2", tag="weights")
    assert mneme.annotate(Array((8,), "<i8"))
    assert mneme.annotate(Array((8,), "|b1"), ignore=True)
    assert mneme.annotate(Array((2,), "<c16"), ulp=4)
    assert mneme.annotate(Array((4,), "<u2"), dtype="f16", absolute=0.5)
    assert mneme.annotate(Array((4,)), remove=True)
    assert recorder.calls == [
        (ADDRESS, 60, 9, 1, 2, 0, 1e-5, b"weights"),
        (ADDRESS, 64, 7, 0, 0, 0, 0.0, b""),
        (ADDRESS, 8, 0, 0, 0, 1, 0.0, b""),
        (ADDRESS, 32, 10, 2, 0, 0, 4.0, b""),
        (ADDRESS, 8, 8, 0, 0, 0, 0.5, b""),
        (ADDRESS, 16, None),
    ]


def test_an_array_may_come_by_dlpack(recorder: Recorder) -> None:
    array: Any = numpy.arange(12, dtype="float64")
    assert mneme.annotate(Exported(array[4:]), absolute=1e-9)
    assert mneme.annotate(Exported(array.astype("int16").reshape(3, 4).T))
    (address, size, dtype, *_), (_, other, integers, *_) = recorder.calls
    assert (address, size, dtype) == (array.ctypes.data + 32, 64, 10)
    assert (other, integers) == (24, 3)


def test_dimensions_may_be_in_any_order(recorder: Recorder) -> None:
    for shape, strides in [((2, 3), (4, 8)), ((2, 1, 3), (12, 400, 4)), ((0, 3), (400, 4))]:
        assert mneme.annotate(Array(shape, strides=strides))
    for shape, strides in [((2, 3), (16, 4)), ((4,), (8,)), ((4,), (-4,)), ((2, 2), (0, 4))]:
        with pytest.raises(ValueError, match="Array are not contiguous"):
            mneme.annotate(Array(shape, strides=strides))
    with pytest.raises(ValueError, match="Exported are not contiguous"):
        mneme.annotate(Exported(numpy.arange(8)[::2]))


@pytest.mark.parametrize(
    "options",
    [
        {"absolute": 1.0, "relative": 1.0},
        {"absolute": 1.0, "ignore": True},
        {"ignore": True, "remove": True},
        {"relative": -1.0},
        {"relative": float("nan")},
        {"ulp": float("inf")},
        {"norm": "l3"},
        {"dtype": "f80"},
    ],
)
def test_nonsense_is_refused_without_a_recorder_too(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        mneme.annotate(Array((4,)), **options)


def test_a_type_without_tolerances_is_refused_by_name(recorder: Recorder) -> None:
    with pytest.raises(TypeError, match="V16"):
        mneme.annotate(Array((4,), "<V2"), relative=1e-2)
    assert mneme.annotate(Array((4,), "<V2"), ignore=True)
    assert mneme.annotate(Array((4,), "<V2"), dtype="u16", ulp=4)
    with pytest.raises(TypeError, match="list has neither"):
        mneme.annotate([1.0])


def test_without_a_recorder_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not mneme.annotate(Array((4,)), relative=1e-5)
    refusing = Recorder(status=1)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: refusing)
    assert not mneme.annotate(Array((4,)), relative=1e-5)
