"""Configurations and results of replays: plain data, with the names, defaults and hash of the existing Mneme."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from typing import Any, Optional, Union

MAX_THREADS_PER_BLOCK = 1024
"""Threads of a block, at most (CUDA C++ Programming Guide, table of technical specifications)."""

_MAX_BLOCK = (1024, 1024, 64)
_MAX_GRID = (2**31 - 1, 65535, 65535)


def plain(value: Any) -> Any:
    """For ``json.dumps(default=…)``: NumPy's numbers as Python's."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} is no plain data")


def _whole(value: Any) -> int:
    """A whole number, whoever's type it has. A fraction is none: ``int`` would cut it."""
    try:
        number = int(value)
        if number != value:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{value!r} is no whole number") from None
    return number


def _plain(value: Any) -> Any:
    """NumPy's truth values and numbers as Python's, also in a list."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value


@dataclass
class dim3:
    """Extent along three axes, as CUDA's type of the same name."""

    x: int = 1
    y: int = 1
    z: int = 1

    def __post_init__(self) -> None:
        self.x, self.y, self.z = _whole(self.x), _whole(self.y), _whole(self.z)

    def __str__(self) -> str:
        return f"dim3({self.x}, {self.y}, {self.z})"

    def __iter__(self) -> Any:
        return iter((self.x, self.y, self.z))

    def __hash__(self) -> int:
        return hash((self.x, self.y, self.z))

    def count(self) -> int:
        """The product of the three."""
        return self.x * self.y * self.z

    def to_dict(self) -> dict[str, int]:
        return {"x": self.x, "y": self.y, "z": self.z}

    @classmethod
    def from_dict(cls, data: Union[Mapping[str, int], dim3, int, Sequence[int]]) -> dim3:
        """From what :meth:`to_dict` gives; also from the extent along x alone, or those along x, y and z in their
        order.

        Raises ``ValueError`` for anything else.
        """
        if isinstance(data, dim3):
            return cls(data.x, data.y, data.z)
        if isinstance(data, Mapping) and set(data) <= {"x", "y", "z"}:
            return cls(**data)
        if isinstance(data, Sequence) and not isinstance(data, (str, bytes)) and 1 <= len(data) <= 3:
            return cls(*data)
        if hasattr(data, "__index__"):
            return cls(data.__index__())
        raise ValueError(f"{data!r} is no dim3; it has an x, a y and a z, as in {{'x': 128}}")


@dataclass
class ExperimentConfiguration:
    """How to compile a recorded kernel and how to launch it.

    The first thirteen fields are those of the existing Mneme and always part of :meth:`to_dict`; the others are only
    where they differ from their defaults. docs/reference/configuration.md says what each does. Lengths are in bytes.
    """

    grid: dim3 = field(default_factory=dim3)
    block: dim3 = field(default_factory=dim3)
    shared_mem: int = 0
    specialize: Union[bool, list[int]] = False
    set_launch_bounds: bool = False
    max_threads: Optional[int] = MAX_THREADS_PER_BLOCK
    min_blocks_per_sm: int = 1
    specialize_dims: bool = False
    passes: str = "default<O3>"
    codegen_opt: int = 3
    codegen_method: str = "serial"
    prune: bool = True
    internalize: bool = True

    # Written by `MNEME_UPDATE_DOCS=1 cargo test -p mneme-model` from crates/model/src/configuration/fields.rs.
    facts: bool = False
    maxnreg: int = 0
    ptx_opt: Optional[int] = None
    ptxas_options: Optional[list[str]] = None
    fast_math: bool = False
    llvm_options: list[str] = field(default_factory=list)
    llvm: Optional[int] = None
    iterations: Optional[int] = None
    warmup: Optional[int] = None
    cache: str = "hot"
    timeout_s: Optional[float] = None
    lift: bool = False
    unfused: bool = False
    original: bool = False
    tolerance: Optional[dict[str, Any]] = None

    def __post_init__(self) -> None:
        if not isinstance(self.grid, dim3):
            self.grid = dim3.from_dict(self.grid)
        if not isinstance(self.block, dim3):
            self.block = dim3.from_dict(self.block)
        for each in fields(self):
            setattr(self, each.name, _plain(getattr(self, each.name)))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ExperimentConfiguration:
        """From what :meth:`to_dict` gives; fields left out have their defaults.

        Raises ``ValueError`` for a field that does not exist.
        """
        unknown = sorted(set(data) - {each.name for each in fields(cls)})
        if unknown:
            raise ValueError(f"a configuration has no field {unknown[0]!r}")
        return cls(**data)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, fit for ``json.dumps``."""
        data: dict[str, Any] = {}
        default = _DEFAULT
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in _ALWAYS or value != getattr(default, each.name):
                data[each.name] = value.to_dict() if isinstance(value, dim3) else value
        return data

    def problem(self) -> Optional[str]:
        """Why no GPU can run this, as a sentence; ``None`` where nothing speaks against it."""
        for what, dims, limits in (("block", self.block, _MAX_BLOCK), ("grid", self.grid, _MAX_GRID)):
            for axis, value, limit in zip("xyz", dims, limits):
                if not 1 <= value <= limit:
                    return f"{what}.{axis} is {value}; it goes from 1 to {limit}"
        threads = self.block.count()
        if threads > MAX_THREADS_PER_BLOCK:
            return f"a block of {self.block} has {threads} threads; the limit is {MAX_THREADS_PER_BLOCK}"
        if self.shared_mem < 0:
            return f"shared_mem is {self.shared_mem}; it is a number of bytes"
        if not 0 <= self.codegen_opt <= 3:
            return f"codegen_opt is {self.codegen_opt}; it goes from 0 to 3"
        if self.ptx_opt is not None and not 0 <= self.ptx_opt <= 3:
            return f"ptx_opt is {self.ptx_opt}; it goes from 0 to 3"
        if (
            self.set_launch_bounds
            and self.max_threads is not None
            and not threads <= self.max_threads <= MAX_THREADS_PER_BLOCK
        ):
            return (
                f"max_threads is {self.max_threads}; with blocks of {threads} threads it goes from {threads} to "
                f"{MAX_THREADS_PER_BLOCK}"
            )
        if not self.passes.strip():
            return "passes is empty"
        return None

    def is_valid(self) -> bool:
        """Whether a GPU may run this at all. The engine knows more (registers, shared memory) and says so in its
        result.
        """
        return self.problem() is None

    def ground(self) -> ExperimentConfiguration:
        """Changes this configuration to the form in which equal configurations are equal, and returns it.

        Parameters that do not apply become 0 (launch bounds that are not set have no values), indices are sorted and
        unique, and a tolerance gets all its fields.
        """
        if not self.set_launch_bounds:
            self.max_threads = 0
            self.min_blocks_per_sm = 0
        if not isinstance(self.specialize, bool):
            self.specialize = sorted({int(index) for index in self.specialize}) or False
        if self.timeout_s is not None:
            self.timeout_s = float(self.timeout_s)
        if self.tolerance is not None:
            tolerance = {**_EXACT, **self.tolerance}
            tolerance["threshold"] = float(tolerance["threshold"])
            if not tolerance.get("ignore", True):
                del tolerance["ignore"]
            self.tolerance = tolerance
        return self

    def grounded(self) -> ExperimentConfiguration:
        """A copy that is grounded."""
        return replace(self).ground()

    def hash(self) -> str:
        """SHA-256 of the compact JSON with sorted keys, without ``codegen_method``.

        The hash of a grounded configuration is the ``config_hash`` of ``mneme tune``.
        """
        data = self.to_dict()
        del data["codegen_method"]
        return hashlib.sha256(_compact(data).encode()).hexdigest()


def with_shapes(changes: Mapping[str, Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """What differs from the recorded configuration, with whole shapes: axes that are left out are as recorded."""

    def shape(name: str) -> dict[str, int]:
        said = changes[name]
        whole = {**recorded.get(name, {}), **said} if isinstance(said, Mapping) else said
        return dim3.from_dict(whole).to_dict()

    return {**changes, **{name: shape(name) for name in ("grid", "block") if name in changes}}


def _compact(value: Any) -> str:
    """JSON with sorted keys and no space, as the engine writes it."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(key)}:{_compact(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_compact, value)) + "]"
    if isinstance(value, float):
        # Python's notation but for two cases: 0.00001 for 1e-05, and 1e-6 for 1e-06.
        digits = float.__repr__(value)
        return format(Decimal(digits), "f") if digits.endswith("e-05") else digits.replace("e-0", "e-")
    return json.dumps(value, default=plain)


_EXACT = {"dtype": "u8", "threshold": 0.0, "kind": "absolute", "norm": "none"}
"""A tolerance that says nothing, as docs/reference/configuration.md has it."""


Configuration = Union[ExperimentConfiguration, Mapping[str, Any]]
"""A configuration, or fields of one: those that a mapping leaves out are as recorded."""

_ALWAYS = frozenset(each.name for each in fields(ExperimentConfiguration)[:13])
_DEFAULT = ExperimentConfiguration()
_OURS = frozenset({"extra", "config"})


@dataclass
class ExperimentResult:
    """What one replay found. Times of stages are seconds, ``exec_time`` nanoseconds: warm-ups first, then iterations.

    ``extra`` holds what the engine says beyond the existing Mneme (docs/reference/protocol.md): status, metrics,
    environment, mismatch.
    """

    preprocess_ir_time: float = 0.0
    opt_time: float = 0.0
    codegen_time: float = 0.0
    obj_size: int = 0
    exec_time: list[int] = field(default_factory=list)
    verified: bool = False
    executed: bool = False
    failed: bool = False
    start_time: str = ""
    end_time: str = ""
    gpu_id: int = 0
    const_mem_usage: int = 0
    local_mem_usage: int = 0
    reg_usage: int = 0
    error: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    config: Optional[ExperimentConfiguration] = field(default=None, repr=False, compare=False)
    """What was replayed, where it is known; no part of :meth:`to_dict`."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ExperimentResult:
        known = {each.name for each in fields(cls)} - _OURS
        extra = {name: value for name, value in data.items() if name not in known}
        return cls(**{name: value for name, value in data.items() if name in known}, extra=extra)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, fit for ``json.dumps`` and :meth:`from_dict`."""
        data = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _OURS}
        data["exec_time"] = list(self.exec_time)
        return {**data, **self.extra}

    @property
    def status(self) -> str:
        """``verified``, ``failed_verification``, ``unproven``, ``compile_error``, ``invalid_config``,
        ``invalid_launch``, ``runtime_error``, ``timeout`` or ``internal_error``.
        """
        return str(self.extra.get("status", "verified" if self.verified else "internal_error"))

    @property
    def evidence(self) -> Optional[dict[str, Any]]:
        """What it shows that memory is as recorded, in bytes: ``compared``, ``written``, ``changed``, ``poisoned``,
        ``shown`` and ``ignored``; ``runs`` counts runs on the recorded input, ``fresh_inputs`` those on others, and
        ``doubts`` says what speaks against the code. ``None`` unless memory is as recorded.
        """
        return self.extra.get("evidence")

    @property
    def measured(self) -> list[int]:
        """``exec_time`` without the warm-ups, ns."""
        return self.exec_time[int(self.extra.get("warmup", 0)) :]
