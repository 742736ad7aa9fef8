"""Random LLVM pass pipelines: valid nesting around passes that make sense for a GPU kernel."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Optional

from mneme.errors import SpaceError


class PassLevel(IntEnum):
    """The adaptor that a pass belongs in."""

    MODULE = 0
    CGSCC = 1
    FUNCTION = 2
    LOOP = 3
    LOOP_MSSA = 4
    """A loop pass that needs MemorySSA."""


_ADAPTORS = {
    PassLevel.MODULE: (),
    PassLevel.CGSCC: ("cgscc",),
    PassLevel.FUNCTION: ("function",),
    PassLevel.LOOP: ("function", "loop"),
    PassLevel.LOOP_MSSA: ("function", "loop-mssa"),
}

# Transformations of LLVM 19 (`opt --print-passes`), without sanitizers, coroutines, exceptions, profiles, printers and
# what other back ends need. Parameters that matter are written out: each entry is one choice.
_PASSES: dict[PassLevel, Sequence[str]] = {
    PassLevel.MODULE: (
        "always-inline",
        "called-value-propagation",
        "constmerge",
        "deadargelim",
        "elim-avail-extern",
        "globaldce",
        "globalopt",
        "inferattrs",
        "inliner-wrapper",
        "ipsccp",
        "mergefunc",
        "module-inline",
        "partial-inliner",
        "rpo-function-attrs",
        "strip-dead-prototypes",
    ),
    PassLevel.CGSCC: ("argpromotion", "function-attrs", "inline"),
    PassLevel.FUNCTION: (
        "adce",
        "aggressive-instcombine",
        "alignment-from-assumptions",
        "bdce",
        "callsite-splitting",
        "consthoist",
        "constraint-elimination",
        "correlated-propagation",
        "dce",
        "dfa-jump-threading",
        "div-rem-pairs",
        "dse",
        "early-cse",
        "early-cse<memssa>",
        "float2int",
        "gvn",
        "gvn-hoist",
        "gvn-sink",
        "infer-address-spaces",
        "infer-alignment",
        "instcombine<no-verify-fixpoint>",
        "instsimplify",
        "jump-threading",
        "lcssa",
        "load-store-vectorizer",
        "loop-data-prefetch",
        "loop-distribute",
        "loop-fusion",
        "loop-load-elim",
        "loop-simplify",
        "loop-sink",
        "loop-unroll<O1>",
        "loop-unroll<O2>",
        "loop-unroll<O3>",
        "loop-vectorize",
        "lower-expect",
        "mem2reg",
        "memcpyopt",
        "mergeicmps",
        "mldst-motion",
        "nary-reassociate",
        "newgvn",
        "reassociate",
        "sccp",
        "separate-const-offset-from-gep",
        "simplifycfg",
        "simplifycfg<forward-switch-cond;switch-range-to-icmp;switch-to-lookup;hoist-common-insts;sink-common-insts>",
        "sink",
        "slp-vectorizer",
        "slsr",
        "speculative-execution<only-if-divergent-target>",
        "sroa<modify-cfg>",
        "sroa<preserve-cfg>",
        "tailcallelim",
        "vector-combine",
    ),
    PassLevel.LOOP: (
        "canon-freeze",
        "indvars",
        "loop-bound-split",
        "loop-deletion",
        "loop-idiom",
        "loop-instsimplify",
        "loop-predication",
        "loop-reduce",
        "loop-rotate",
        "loop-simplifycfg",
        "loop-unroll-full",
    ),
    PassLevel.LOOP_MSSA: ("licm", "lnicm", "simple-loop-unswitch<nontrivial;trivial>"),
}


@dataclass(frozen=True)
class Pass:
    """A pass with its parameters, as LLVM spells it: ``"licm"``, ``"early-cse<memssa>"``."""

    text: str
    level: PassLevel = field(compare=False)

    def __str__(self) -> str:
        return self.text


class PipelineManager:
    """Knows passes, and composes pipelines of them.

    >>> manager = PipelineManager()
    >>> manager.to_string(manager.from_string("function(sroa<modify-cfg>,loop-mssa(licm)),globaldce"))
    'function(sroa<modify-cfg>,loop-mssa(licm)),globaldce'
    """

    def __init__(self, passes: Optional[Iterable[str]] = None) -> None:
        every = {text: Pass(text, level) for level, texts in _PASSES.items() for text in texts}
        if passes is None:
            self._passes = every
        else:
            unknown = [text for text in passes if text not in every]
            if unknown:
                raise SpaceError(f"no pass {unknown[0]!r}; get_passes() lists them")
            self._passes = {text: every[text] for text in passes}
        self._levels = {text.partition("<")[0]: level for level, texts in _PASSES.items() for text in texts}

    def get_passes(self) -> list[str]:
        """All passes, with the parameters that they are tried with."""
        return list(self._passes)

    def get_concrete_passes(self) -> dict[str, Pass]:
        """The same by their texts, for :meth:`to_string`."""
        return dict(self._passes)

    def generate(
        self, samples: int, mean_passes: float, std: float, allow_repeats: bool = True, seed: Optional[int] = 0
    ) -> list[list[Pass]]:
        """Random sequences whose lengths are normally distributed; the same ones for the same seed."""
        rng = random.Random(seed)
        return [self.random_pipeline(mean_passes, std, allow_repeats, rng) for _ in range(samples)]

    def random_pipeline(
        self, mean_passes: float, std: float, allow_repeats: bool = True, rng: Optional[random.Random] = None
    ) -> list[Pass]:
        """One random sequence."""
        rng = rng or random.Random()
        known = list(self._passes.values())
        length = max(1, round(rng.gauss(mean_passes, std)))
        return rng.choices(known, k=length) if allow_repeats else rng.sample(known, min(length, len(known)))

    def mutate(self, passes: Sequence[Pass], rng: Optional[random.Random] = None) -> list[Pass]:
        """A sequence that differs by one pass put in, taken out, replaced or moved."""
        rng = rng or random.Random()
        changed = list(passes)
        known = list(self._passes.values())
        what = rng.choice(("insert", "remove", "replace", "move")) if len(changed) > 1 else "insert"
        if what == "insert":
            changed.insert(rng.randint(0, len(changed)), rng.choice(known))
        else:
            at = rng.randrange(len(changed))
            taken = changed.pop(at)
            if what == "replace":
                changed.insert(at, rng.choice(known))
            elif what == "move":
                changed.insert(rng.randint(0, len(changed)), taken)
        return changed

    def from_string(self, pipeline: str) -> list[Pass]:
        """The passes of a pipeline, without the adaptors around them. Raises :class:`~mneme.errors.SpaceError` for
        unknown ones.
        """
        found = []
        for text in flatten_passes(pipeline):
            name = text.partition("<")[0]
            if name not in self._levels:
                raise SpaceError(f"no pass {name!r}; get_passes() lists them")
            found.append(Pass(text, self._levels[name]))
        return found

    @staticmethod
    def to_string(passes: Iterable[Pass]) -> str:
        """The pipeline in LLVM's syntax, with each run of passes of one level in one adaptor."""
        text = ""
        open_adaptors: tuple[str, ...] = ()
        for each in passes:
            wanted = _ADAPTORS[each.level]
            shared = 0
            while shared < min(len(open_adaptors), len(wanted)) and open_adaptors[shared] == wanted[shared]:
                shared += 1
            text += ")" * (len(open_adaptors) - shared)
            if text:
                text += ","
            text += "".join(f"{adaptor}(" for adaptor in wanted[shared:]) + each.text
            open_adaptors = wanted
        return text + ")" * len(open_adaptors)


def flatten_passes(pipeline: str) -> list[str]:
    """The innermost passes of a pipeline, in order."""
    found = []
    for part in split_top_level(pipeline):
        nested = re.fullmatch(r"[^(<]+(?:<[^(]*>)?\((.*)\)", part)
        found.extend(flatten_passes(nested.group(1)) if nested else [part])
    return found


def split_top_level(pipeline: str) -> list[str]:
    """Splits at commas outside parentheses and angle brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(pipeline):
        if letter in "(<":
            depth += 1
        elif letter in ")>":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(pipeline[start:at].strip())
            start = at + 1
    parts.append(pipeline[start:].strip())
    return [part for part in parts if part]
