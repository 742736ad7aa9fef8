"""Files of memory, and memory of which the parts lie apart in one, mapped as one piece."""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Sequence
from typing import Optional

Part = tuple[int, int, int]
"""Offset in the memory, offset in the file, size; bytes."""

PARTS = 4096
"""Parts that are mapped at most: the system limits the mappings of a process (vm.max_map_count, 65530 by default)."""

# Of linux/mman.h, where the module mmap does not name them.
_PROT_NONE = 0
_MAP_FIXED = 0x10
_FAILED = ctypes.c_void_p(-1).value


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


def is_mappable(parts: Sequence[Part]) -> bool:
    """Whether the parts can be put side by side page by page."""
    page = mmap.PAGESIZE
    whole = all(at % page == 0 and offset % page == 0 for at, offset, _ in parts)
    return whole and all(size % page == 0 for _, _, size in parts[:-1]) and len(parts) <= PARTS


class File:
    """A file that is read by mapping it; open as long as it is needed, whatever becomes of its name."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        self._mapped: Optional[mmap.mmap] = None

    def view(self) -> memoryview:
        """All of it, read only."""
        if self._mapped is None:
            self._mapped = mmap.mmap(self._descriptor, 0, access=mmap.ACCESS_READ)
        return memoryview(self._mapped)

    def join(self, parts: Sequence[Part], size: int) -> Optional[memoryview]:
        """A view, read only, of ``size`` bytes: the parts, which cover them without gaps, one behind the other.
        ``None`` where the system cannot map them so.
        """
        if not is_mappable(parts):
            return None
        library = _library()
        start = library.mmap(None, size, _PROT_NONE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if start == _FAILED:
            return None
        memory = (ctypes.c_char * size).from_address(start)
        # Views hold on to the array, and its end is the end of the mappings.
        weakref.finalize(memory, library.munmap, start, size)
        for at, offset, length in parts:
            # Over the reservation, which covers it.
            if (
                library.mmap(
                    start + at, length, mmap.PROT_READ, mmap.MAP_PRIVATE | _MAP_FIXED, self._descriptor, offset
                )
                == _FAILED
            ):
                return None
        return memoryview(memory).cast("B").toreadonly()

    def copy(self, parts: Sequence[Part], size: int) -> memoryview:
        """The same in memory of its own."""
        view, whole = self.view(), bytearray(size)
        for at, offset, length in parts:
            whole[at : at + length] = view[offset : offset + length]
        return memoryview(whole).toreadonly()
