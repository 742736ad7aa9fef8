"""Recorded and replayed device memory as NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from mneme import mapping
from mneme.errors import RecordingError


@dataclass(repr=False)
class Region:
    """An allocation or a device variable. Sizes and offsets are bytes."""

    address: int
    size: int
    file: mapping.File = field(compare=False)
    parts: list[mapping.Part]
    """Where it is in the file; without gaps."""
    variable: Optional[str] = None
    tag: str = ""
    _joined: Optional[memoryview] = field(default=None, init=False, compare=False)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.size} bytes at 0x{self.address:x}>"

    @property
    def name(self) -> str:
        """The variable's name, the tag, or the address."""
        return self.variable or self.tag or f"0x{self.address:x}"

    def buffer(self) -> memoryview:
        """The bytes, read only: a view of the decoded snapshot. They are put together in memory where they are in
        pieces there that cannot be mapped side by side.
        """
        if self.size == 0:
            return memoryview(b"")
        if len(self.parts) == 1:
            _, offset, size = self.parts[0]
            return self.file.view()[offset : offset + size]
        if self._joined is None:
            self._joined = self.file.join(self.parts, self.size) or self.file.copy(self.parts, self.size)
        return self._joined

    def array(self, dtype: Any = "uint8", shape: Optional[Union[int, Sequence[int]]] = None) -> Any:
        """The memory as a NumPy array. Bytes after the last whole element are left out."""
        import numpy

        kind = numpy.dtype(dtype)
        array = numpy.frombuffer(self.buffer(), dtype=kind, count=self.size // kind.itemsize)
        return array if shape is None else array[: int(numpy.prod(shape))].reshape(shape)


class Memory(Sequence[Region]):
    """All regions of device memory at one moment; look one up by name, tag or address."""

    def __init__(self, regions: list[Region]) -> None:
        self.regions = regions

    def __repr__(self) -> str:
        return f"Memory({self.regions})"

    @classmethod
    def from_reply(cls, reply: dict[str, Any]) -> Memory:
        """From the engine's reply (docs/reference/protocol.md)."""
        # Opened while the engine still holds them.
        files = {path: mapping.File(path) for path in {each["path"] for each in reply["regions"]}}
        return cls(
            [
                Region(
                    address=int(each["address"], 16),
                    size=each["size"],
                    file=files[each["path"]],
                    parts=[(part["at"], part["offset"], part["size"]) for part in each["parts"]],
                    variable=each.get("variable"),
                    tag=each.get("tag", ""),
                )
                for each in reply["regions"]
            ]
        )

    def laid_out_in(self, path: str) -> Memory:
        """The same regions, read from another file of the same layout."""
        file = mapping.File(path)
        return Memory(
            [Region(each.address, each.size, file, each.parts, each.variable, each.tag) for each in self.regions]
        )

    def __len__(self) -> int:
        return len(self.regions)

    def __iter__(self) -> Iterator[Region]:
        return iter(self.regions)

    def __getitem__(self, key: Any) -> Any:
        """A region by position, by the name of a variable, by tag, or by an address inside it (number or ``"0x…"``)."""
        if isinstance(key, slice) or (isinstance(key, int) and -len(self.regions) <= key < len(self.regions)):
            return self.regions[key]
        if isinstance(key, str):
            for region in self.regions:
                if key in (region.variable, region.tag or None):
                    return region
            if not key.startswith("0x"):
                raise KeyError(
                    f"no variable or tag {key!r}; there are {', '.join(region.name for region in self.regions)}"
                )
            key = int(key, 16)
        for region in self.regions:
            if region.address <= key < region.address + region.size:
                return region
        raise KeyError(f"no recorded memory at 0x{key:x}")


@dataclass
class RegionDiff:
    """Where two states of a region differ."""

    recorded: Region
    replayed: Region
    offsets: Any
    """Byte offsets that differ, ascending: a NumPy array of int64."""

    @property
    def name(self) -> str:
        return self.recorded.name

    def elements(self, dtype: Any) -> tuple[Any, Any, Any]:
        """Indices of the elements that differ, what was recorded there, and what the replay left:
        three NumPy arrays.
        """
        import numpy

        kind = numpy.dtype(dtype)
        count = self.recorded.size // kind.itemsize
        indices = numpy.unique(self.offsets // kind.itemsize)
        indices = indices[indices < count]
        return indices, self.recorded.array(kind)[indices], self.replayed.array(kind)[indices]


def diff(recorded: Memory, replayed: Memory) -> list[RegionDiff]:
    """The regions in which two states differ."""
    import numpy

    if [(each.address, each.size) for each in recorded] != [(each.address, each.size) for each in replayed]:
        raise RecordingError("the two states are not of the same recording")
    found = []
    for one, other in zip(recorded, replayed):
        offsets = numpy.flatnonzero(one.array() != other.array())
        if len(offsets):
            found.append(RegionDiff(one, other, offsets))
    return found
