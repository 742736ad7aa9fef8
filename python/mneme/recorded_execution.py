"""A recorded kernel: its launches, memory and IR."""

from __future__ import annotations

import json
from collections.abc import ItemsView, Iterator, KeysView, MutableMapping, ValuesView
from dataclasses import InitVar, dataclass, field, replace
from pathlib import Path
from typing import Any, Optional

from mneme import private_files
from mneme.engine import Engine, PathLike
from mneme.errors import RecordingError
from mneme.memory import Memory
from mneme.mneme_types import ExperimentConfiguration, dim3


class SnapshotFile(str):
    """Path of a snapshot. ``fn`` is the same path, as in the existing Mneme."""

    @property
    def fn(self) -> str:
        return str(self)


class RecordedExecution(MutableMapping[str, "RecordedExecution.KernelInstance"]):
    """A recorded kernel; a mapping of its instances by dynamic hash."""

    @dataclass
    class KernelInstance:
        """One recorded launch. ``shared_mem`` is in bytes, ``occ`` counts launches with this dynamic hash.

        ``specializations`` says for each argument whether its value may be folded into the code.
        """

        static_hash: str
        dynamic_hash: str
        kernel_name: str
        args: list[Any]
        shared_mem: int
        block_dim: dim3
        grid_dim: dim3
        specializations: list[bool]
        occ: int
        prologue_fn: InitVar[str]
        epilogue_fn: InitVar[str]
        record_db: Optional[str] = field(default=None, repr=False, compare=False)
        prologue: SnapshotFile = field(init=False)
        epilogue: SnapshotFile = field(init=False)

        def __post_init__(self, prologue_fn: str, epilogue_fn: str) -> None:
            self.prologue, self.epilogue = SnapshotFile(prologue_fn), SnapshotFile(epilogue_fn)

        def __hash__(self) -> int:
            return hash((self.static_hash, self.dynamic_hash))

        @property
        def dhash(self) -> str:
            """The same as ``dynamic_hash``."""
            return self.dynamic_hash

        @property
        def available_specializations(self) -> list[int]:
            """The arguments whose values may be folded, counted from 0."""
            return [index for index, is_available in enumerate(self.specializations) if is_available]

        def to_dict(self, base_dir: Optional[Path] = None) -> dict[str, Any]:
            """The instance as a database has it: files by their names, or by their paths without ``base_dir``."""
            return {
                "Prologue": _named(self.prologue, base_dir),
                "Epilogue": _named(self.epilogue, base_dir),
                "BlockDims": self.block_dim.to_dict(),
                "GridDims": self.grid_dim.to_dict(),
                "SharedMem": self.shared_mem,
                "Args": self.args,
                "Occurrences": self.occ,
            }

        def configuration(self) -> ExperimentConfiguration:
            """The configuration that repeats the launch."""
            grid, block = replace(self.grid_dim), replace(self.block_dim)
            return ExperimentConfiguration(grid=grid, block=block, shared_mem=self.shared_mem)

        def engine(self, options: Any = ()) -> Engine:
            """A replay engine for this instance."""
            if self.record_db is None:
                raise RecordingError("this instance was not loaded from a file; use RecordedExecution.from_json")
            return Engine(self.record_db, self.dynamic_hash, options)

        def memory(self, moment: str, options: Any = ()) -> Memory:
            """Device memory of the ``"prologue"`` or the ``"epilogue"``, decoded by the engine.

            An :class:`~mneme.async_executor.AsyncReplayExecutor` that exists already gives the same without starting
            another one.
            """
            with self.engine(options) as engine:
                return Memory.from_reply(engine.ask({"type": "memory", "moment": moment}, "memory"))

        def ir(self, options: Any = ()) -> Any:
            """The linked recorded IR as an llvmlite module reference; see :mod:`mneme.ir`."""
            from mneme.ir import parse

            with self.engine(options) as engine:
                return parse(Path(engine.ask({"type": "ir"}, "ir")["path"]).read_bytes())

    def __init__(
        self,
        static_hash: str,
        kernel_name: str,
        demangled_name: str,
        llvm_files: list[str],
        arg_names: list[str],
        specializations: list[bool],
        va_addr: str,
        va_size: int,
        kernel_instances: dict[str, KernelInstance],
        raw: Optional[dict[str, Any]] = None,
    ) -> None:
        self.kernel_name = kernel_name
        self.demangled_name = demangled_name
        self.llvm_files = llvm_files
        self.arg_names = arg_names
        self.specializations = specializations
        self.va_addr = va_addr
        self.va_size = va_size
        self.kernel_instances = kernel_instances
        self.static_hash = static_hash
        self._raw = raw or {}

    @classmethod
    def from_json(cls, fn: PathLike) -> RecordedExecution:
        """Reads a ``<static-hash>.json``, or that of the only kernel in a recording's folder.

        Raises :class:`~mneme.errors.RecordingError` where it is missing or damaged.
        """
        path = Path(fn)
        if path.is_dir():
            path = _only_kernel(path)
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            instances = {
                dhash: KernelInstance(
                    static_hash=str(raw["StaticHash"]),
                    dynamic_hash=dhash,
                    kernel_name=raw["KernelName"],
                    args=each["Args"],
                    shared_mem=each["SharedMem"],
                    block_dim=dim3.from_dict(each["BlockDims"]),
                    grid_dim=dim3.from_dict(each["GridDims"]),
                    specializations=raw["Specializations"],
                    occ=each["Occurrences"],
                    prologue_fn=str(path.parent / each["Prologue"]),
                    epilogue_fn=str(path.parent / each["Epilogue"]),
                    record_db=str(path),
                )
                for dhash, each in raw["instances"].items()
            }
            return cls(
                str(raw["StaticHash"]),
                raw["KernelName"],
                raw["DemangledName"],
                [str(path.parent / module) for module in raw["Modules"]],
                raw["ArgNames"],
                raw["Specializations"],
                raw["VAddr"],
                raw["VASize"],
                instances,
                raw,
            )
        except FileNotFoundError:
            raise RecordingError(f"there is no recording database {path}") from None
        except (OSError, ValueError) as error:
            raise RecordingError(f"the recording database {path} cannot be read: {error}") from None
        except (KeyError, TypeError, AttributeError) as error:
            raise RecordingError(
                f"{path} is not a recording database: {error} is missing or of the wrong kind"
            ) from None

    def to_dict(self, base_dir: Optional[Path] = None) -> dict[str, Any]:
        """The database with the instances that the mapping has now: files by their names, or by their paths without
        ``base_dir``.
        """
        static_hash = int(self.static_hash) if str(self.static_hash).isdigit() else self.static_hash
        raw = {"StaticHash": static_hash, "BinaryBlobs": [], **self._raw}
        known = raw.get("instances", {})
        raw["instances"] = {dhash: {**known.get(dhash, {}), **each.to_dict(base_dir)} for dhash, each in self.items()}
        raw.update(
            KernelName=self.kernel_name,
            DemangledName=self.demangled_name,
            Modules=[_named(module, base_dir) for module in self.llvm_files],
            ArgNames=self.arg_names,
            Specializations=self.specializations,
            VAddr=self.va_addr,
            VASize=self.va_size,
        )
        return raw

    def to_json(self, fn: Optional[PathLike] = None) -> str:
        """The database as text, with the names of its files; also written to ``fn``, beside which they have to be."""
        text = json.dumps(self.to_dict(Path()), indent=2) + "\n"
        if fn is not None:
            with private_files.open_text(Path(fn), "w") as file:
                file.write(text)
        return text

    def __getitem__(self, key: str) -> KernelInstance:
        try:
            return self.kernel_instances[str(key)]
        except KeyError:
            known = ", ".join(self.kernel_instances) or "none"
            raise KeyError(f"{self.demangled_name} has no recorded instance {key}; it has {known}") from None

    def __setitem__(self, key: str, value: KernelInstance) -> None:
        self.kernel_instances[str(key)] = value

    def __delitem__(self, key: str) -> None:
        del self.kernel_instances[str(key)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kernel_instances)

    def __len__(self) -> int:
        return len(self.kernel_instances)

    def items(self) -> ItemsView[str, KernelInstance]:
        return self.kernel_instances.items()

    def keys(self) -> KeysView[str]:
        return self.kernel_instances.keys()

    def values(self) -> ValuesView[KernelInstance]:
        return self.kernel_instances.values()

    def __repr__(self) -> str:
        return f"RecordedExecution({self.demangled_name}, {len(self)} instances)"


KernelInstance = RecordedExecution.KernelInstance


def _only_kernel(folder: Path) -> Path:
    found = sorted(path for path in folder.glob("*.json") if path.stem.isdigit())
    if len(found) == 1:
        return found[0]
    which = (
        f"{len(found)} kernels; name one: {', '.join(path.name for path in found)}" if found else "no recorded kernel"
    )
    raise RecordingError(f"{folder} holds {which}")


def _named(file: str, base_dir: Optional[Path]) -> str:
    return str(file) if base_dir is None else Path(file).name
