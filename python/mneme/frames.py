"""Results as data frames."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Optional

from mneme.engine import PathLike
from mneme.mneme_types import ExperimentConfiguration, ExperimentResult


def rows(results: Iterable[ExperimentResult]) -> list[dict[str, Any]]:
    """One flat dictionary a result: the configuration (``grid.x``, ``block.x``, ``passes``, …), the result's fields,
    and ``time``: the median of the measured runs, ns.
    """
    table = []
    for result in results:
        row: dict[str, Any] = {}
        if result.config is not None:
            _flatten("", result.config.to_dict(), row)
            row["hash"] = result.config.grounded().hash()
        plain = result.to_dict()
        row["status"] = result.status
        row["time"] = statistics.median(result.measured) if result.verified and result.measured else None
        _flatten("", {name: value for name, value in plain.items() if name not in row}, row)
        table.append(row)
    return table


def _flatten(prefix: str, value: dict[str, Any], row: dict[str, Any]) -> None:
    for name, each in value.items():
        if isinstance(each, dict):
            _flatten(f"{prefix}{name}.", each, row)
        else:
            row[f"{prefix}{name}"] = each


def to_pandas(results: Iterable[ExperimentResult]) -> Any:
    """A ``pandas.DataFrame`` of :func:`rows`."""
    import pandas

    return pandas.DataFrame(rows(results))


def to_polars(results: Iterable[ExperimentResult]) -> Any:
    """A ``polars.DataFrame`` of :func:`rows`."""
    import polars

    return polars.DataFrame(rows(results), infer_schema_length=None, strict=False)


def read_results(path: PathLike) -> list[ExperimentResult]:
    """Results that an executor appended to its ``results_db_dir``, or the ``trials.jsonl`` of ``mneme-tune``: the last
    measurement of each trial."""
    found: dict[tuple[str, int], ExperimentResult] = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines()):
        entry = json.loads(line)
        result = ExperimentResult.from_dict(entry["result"])
        config: Optional[dict[str, Any]] = entry.get("config")
        result.config = None if config is None else ExperimentConfiguration.from_dict(config)
        found[("trial", entry["trial"]) if "trial" in entry else ("line", number)] = result
    return list(found.values())
