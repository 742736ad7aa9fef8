"""Recorded IR through llvmlite: functions, blocks, instructions."""

from __future__ import annotations

import re
from typing import Any

from mneme.errors import MnemeError

LLVM = 19
"""Major version of the LLVM that writes the linked IR. Bitcode is readable by the same and by later versions."""


def parse(bitcode: bytes) -> Any:
    """An ``llvmlite.binding.ModuleRef``. Raises :class:`~mneme.errors.MnemeError` where llvmlite
    is missing or too old.
    """
    try:
        from llvmlite import binding
    except ImportError:
        raise MnemeError("llvmlite is not installed; pip install 'mneme[ir]'") from None
    found = tuple(binding.llvm_version_info)
    if found[0] < LLVM:
        version = ".".join(str(part) for part in found)
        raise MnemeError(
            f"the recorded IR is of LLVM {LLVM}, and this llvmlite is built with LLVM {version}, which cannot "
            f"read it; update llvmlite"
        )
    if hasattr(binding, "initialize") and found[0] < 20:
        binding.initialize()
    return binding.parse_bitcode(bitcode)


# What LLVM 20 and later print and LLVM 19 cannot read, with what it says instead. All of it is advice to the optimiser
# that may be left out, or another spelling of the same.
_LATER_SPELLINGS = (
    (re.compile(r"^(?:declare|\s*(?:tail )?call) [^\n]*@llvm\.lifetime\.(?:start|end)\.[^\n]*\n", re.MULTILINE), ""),
    (re.compile(r"\bcaptures\(none\)"), "nocapture"),
    (re.compile(r" ?\b(?:captures|initializes)\((?:[^()]|\([^()]*\))*\)"), ""),
    (re.compile(r" ?\bdead_on_(?:return|unwind)\b(?:\(\d+\))?"), ""),
    (re.compile(r"\bicmp samesign\b"), "icmp"),
    (re.compile(r" ?\bnocreateundeforpoison\b"), ""),
    (re.compile(r" ?\berrnomem: \w+,?"), ""),
)


def to_text(module: Any) -> str:
    """Textual IR that the engine can read, of an llvmlite module: what later versions of LLVM spell otherwise is put as
    LLVM 19 has it.
    """
    text = str(module)
    for pattern, replacement in _LATER_SPELLINGS:
        text = pattern.sub(replacement, text)
    return text
