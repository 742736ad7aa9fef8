"""A progress bar for a loop over results: in a notebook, on a terminal, and nothing in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Optional, TypeVar, Union

from mneme.mneme_types import ExperimentResult

Item = TypeVar("Item")

_WIDTH = 30
_INTERVAL_S = 0.1


def track(items: Iterable[Item], total: Optional[int] = None) -> Iterator[Item]:
    """Passes ``items`` on and shows how many there were, how many verified, the best time and the time left."""
    if total is None and hasattr(items, "__len__"):
        total = len(items)  # type: ignore[arg-type]
    show = _display()
    start, shown, count, verified, best = time.monotonic(), 0.0, 0, 0, None
    for item in items:
        count += 1
        if isinstance(item, ExperimentResult) and item.verified and item.measured:
            verified += 1
            fastest = min(item.measured)
            best = fastest if best is None else min(best, fastest)
        now = time.monotonic()
        if show is not None and now - shown > _INTERVAL_S:
            shown = now
            show(_line(count, total, verified, best, now - start))
        yield item
    if show is not None:
        show(_line(count, total, verified, best, time.monotonic() - start), last=True)


def _line(count: int, total: Optional[int], verified: int, best: Optional[int], seconds: float) -> str:
    rate = count / seconds if seconds > 0 else 0.0
    parts = [f"{count}/{total}" if total else str(count), f"{verified} verified", f"{rate:.0f}/s"]
    if best is not None:
        parts.append(f"best {best / 1000:.1f} µs")
    if total and rate:
        parts.append(f"{(total - count) / rate:.0f} s left")
        full = count * _WIDTH // total
        parts.insert(0, "█" * full + "░" * (_WIDTH - full))
    return "  ".join(parts)


class _Notebook:
    def __init__(self) -> None:
        from IPython.display import display

        self._handle = display({"text/plain": ""}, raw=True, display_id=True)

    def __call__(self, line: str, last: bool = False) -> None:
        self._handle.update({"text/plain": line}, raw=True)


class _Terminal:
    def __call__(self, line: str, last: bool = False) -> None:
        sys.stderr.write("\r\x1b[K" + line + ("\n" if last else ""))
        sys.stderr.flush()


def _display() -> Optional[Union[_Notebook, _Terminal]]:
    shell = sys.modules.get("IPython")
    if shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None:
        return _Notebook()
    return _Terminal() if sys.stderr.isatty() else None
