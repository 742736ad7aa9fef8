"""Recorded IR through llvmlite: functions, blocks, instructions."""

from __future__ import annotations

from typing import Any

from mneme.errors import MnemeError

LLVM = 19
"""Major version of the LLVM that writes the linked IR. Bitcode is readable by the same and by later versions."""


def parse(bitcode: bytes) -> Any:
    """An ``llvmlite.binding.ModuleRef``. Raises :class:`~mneme.errors.MnemeError` where llvmlite is missing or too old."""
    try:
        from llvmlite import binding
    except ImportError:
        raise MnemeError("llvmlite is not installed; pip install 'mneme[ir]'") from None
    found = tuple(binding.llvm_version_info)
    if found[0] < LLVM:
        version = ".".join(str(part) for part in found)
        raise MnemeError(
            f"the recorded IR is of LLVM {LLVM}, and this llvmlite is built with LLVM {version}, which cannot read it; update llvmlite"
        )
    if hasattr(binding, "initialize") and found[0] < 20:
        binding.initialize()
    return binding.parse_bitcode(bitcode)
