"""Plots of results, with matplotlib."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

from mneme.frames import rows
from mneme.mneme_types import ExperimentResult


def _axes(axes: Any) -> Any:
    if axes is not None:
        return axes
    import matplotlib.pyplot

    return matplotlib.pyplot.subplots()[1]


def history(results: Iterable[ExperimentResult], axes: Optional[Any] = None) -> Any:
    """Time of each verified result in order, and the best so far. Returns matplotlib's axes."""
    axes = _axes(axes)
    times = [(number, row["time"] / 1000) for number, row in enumerate(rows(results)) if row["time"] is not None]
    best: list[float] = []
    for _, time in times:
        best.append(min(time, best[-1]) if best else time)
    axes.plot([number for number, _ in times], [time for _, time in times], ".", label="verified")
    axes.step([number for number, _ in times], best, where="post", label="best so far")
    axes.set_xlabel("configuration")
    axes.set_ylabel("time (µs)")
    axes.legend()
    return axes


def heat_map(
    results: Iterable[ExperimentResult], x: str = "block.x", y: str = "passes", axes: Optional[Any] = None
) -> Any:
    """Best time for each pair of values of two configuration fields. Returns matplotlib's axes."""
    axes = _axes(axes)
    table = [row for row in rows(results) if row["time"] is not None]
    columns, lines = sorted({row[x] for row in table}), sorted({row[y] for row in table})
    grid = [[float("nan")] * len(columns) for _ in lines]
    for row in table:
        line, column = lines.index(row[y]), columns.index(row[x])
        known = grid[line][column]
        grid[line][column] = row["time"] / 1000 if known != known else min(known, row["time"] / 1000)
    image = axes.imshow(grid, aspect="auto")
    axes.set_xticks(range(len(columns)), [str(value) for value in columns])
    axes.set_yticks(range(len(lines)), [str(value) for value in lines])
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.figure.colorbar(image, ax=axes, label="time (µs)")
    return axes
