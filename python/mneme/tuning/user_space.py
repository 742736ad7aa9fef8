"""Search spaces written as classes: how they are found, and how values of their parameters cross to the tuner and back.

Values cross in JSON. A parameter whose values JSON cannot hold is described by texts in their place, and what comes
back is turned into the value again before any code of the user's sees it.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import os
import random
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from mneme.mneme_types import ExperimentConfiguration, with_shapes
from mneme.recorded_execution import RecordedExecution
from mneme.tuning import parameters as kinds
from mneme.tuning.search_space import allows

GENERATED = 256
"""Values that stand for a parameter without a list of them."""


class Problem(Exception):
    """One sentence for the user."""


class Parameter:
    """A parameter of a space and how its values cross."""

    def __init__(self, param: Any) -> None:
        self.param = param
        self.name: str = param.name
        self.choices: Optional[list[tuple[Any, Any]]] = None
        self.description = self._describe()

    def _describe(self) -> dict[str, Any]:
        param = self.param
        if isinstance(param, (kinds.IntRangeParam, kinds.RealRangeParam)):
            kind = "integer" if isinstance(param, kinds.IntRangeParam) else "real"
            return {
                "name": self.name,
                "kind": kind,
                "low": param.low,
                "high": param.high,
                "step": param.step,
                "log": param.log,
            }
        if isinstance(param, kinds.PermutationParam):
            self.choices = crossing(param.items)
            return {"name": self.name, "kind": "permutation", "values": [crossed for crossed, _ in self.choices]}
        generated = False
        try:
            values = list(itertools.islice(param.values(), 1_000_000))
        except Exception:
            # No list of values: a sample of them stands for all.
            generated = True
            values = unique(sample(param) for _ in range(GENERATED))
        self.choices = crossing(values)
        return {
            "name": self.name,
            "kind": "categorical",
            "values": [crossed for crossed, _ in self.choices],
            "generated": generated,
        }

    def encode(self, value: Any) -> Any:
        """What crosses in the place of a value."""
        if self.choices is None:
            return value
        if isinstance(self.param, kinds.PermutationParam):
            return [self._encode_choice(item) for item in value]
        return self._encode_choice(value)

    def _encode_choice(self, value: Any) -> Any:
        for crossed, choice in self.choices or []:
            if choice is value or (type(choice) is type(value) and choice == value):
                return crossed
        return value

    def decode(self, crossed: Any) -> Any:
        """The value that crossed."""
        if self.choices is None:
            return crossed
        if isinstance(self.param, kinds.PermutationParam):
            return tuple(self._decode_choice(item) for item in crossed)
        return self._decode_choice(crossed)

    def _decode_choice(self, crossed: Any) -> Any:
        for known, choice in self.choices or []:
            if known == crossed and isinstance(known, bool) == isinstance(crossed, bool):
                return choice
        return crossed


def sample(param: Any) -> Any:
    return param.sample_random(random.Random())


def unique(values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def crossing(values: list[Any]) -> list[tuple[Any, Any]]:
    """Values with what crosses for each: themselves where JSON holds them, else a text."""
    pairs: list[tuple[Any, Any]] = []
    for value in values:
        try:
            crossed = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            crossed = repr(value)
        if any(crossed == known and type(crossed) is type(known) for known, _ in pairs):
            crossed = f"{crossed} #{len(pairs)}"
        pairs.append((crossed, value))
    return pairs


class Space:
    """A search space of the user's, for one recorded instance.

    ``as_recorded`` is the configuration that repeats the launch: what a dictionary leaves out is as there.
    """

    def __init__(
        self,
        target: str,
        arguments: Mapping[str, Any],
        database: str,
        instance: str,
        as_recorded: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self.as_recorded = dict(as_recorded or {})
        cls = load_class(target)
        recorded = RecordedExecution.from_json(database)[instance]
        try:
            self.space = cls(recorded, **arguments)
            self.parameters = [named(name, param) for name, param in dict(self.space.dimensions()).items()]
        except Exception as error:
            raise Problem(f"{target} cannot be made for the recorded kernel: {what(error)}") from error

    def decode(self, point: Mapping[str, Any]) -> dict[str, Any]:
        return {each.name: each.decode(point[each.name]) for each in self.parameters if each.name in point}

    def encode(self, point: Mapping[str, Any]) -> dict[str, Any]:
        known = {each.name: each for each in self.parameters}
        return {name: known[name].encode(value) if name in known else value for name, value in point.items()}

    def configuration(self, derived: Any) -> ExperimentConfiguration:
        """What ``derived()`` or ``baseline()`` means."""
        if isinstance(derived, ExperimentConfiguration):
            return derived
        return ExperimentConfiguration.from_dict({**self.as_recorded, **with_shapes(derived, self.as_recorded)})

    def ground(self, point: Mapping[str, Any]) -> dict[str, Any]:
        values = self.decode(point)
        try:
            if hasattr(self.space, "constraints") and not allows(self.space, values):
                return {"type": "rejected", "reason": "constraints() does not allow it"}
            config = self.configuration(self.space.derived(values))
        except Exception as error:
            traceback.print_exc()
            return {"type": "rejected", "reason": what(error)}
        problem = config.problem()
        return (
            {"type": "rejected", "reason": problem}
            if problem
            else {"type": "configuration", "config": config.to_dict()}
        )

    def suggest(self, trial: Any) -> dict[str, Any]:
        """The point of an Optuna trial, by the space's own ``suggest`` where it has one."""
        own = getattr(self.space, "suggest", None)
        values = own(trial) if own else {each.name: each.param.suggest(trial) for each in self.parameters}
        return self.encode(values)


def named(name: str, param: Any) -> Parameter:
    param.name = name
    return Parameter(param)


OURS = ("<", str(Path(__file__).parents[1]) + os.sep, str(Path(importlib.__file__ or "").parent) + os.sep)
"""The beginnings of files that are not the user's: Python's frozen modules, this package, and ``importlib``."""


def what(error: BaseException) -> str:
    """The error, and the line of the user's file that led to it."""
    said = f"{type(error).__name__}: {error}"
    calls = [call for call in traceback.extract_tb(error.__traceback__) if not call.filename.startswith(OURS)]
    # Below the user's file may be libraries that it calls.
    own = [call for call in calls if call.filename == calls[0].filename]
    return f"{said} ({own[-1].filename}, line {own[-1].lineno})" if own else said


def load_class(target: str) -> Any:
    """The class that ``MODULE_OR_PATH:CLASS`` names."""
    place, colon, name = target.rpartition(":")
    if not (place and colon and name):
        raise Problem(
            f"'{target}' names no class; write it as MODULE_OR_PATH:CLASS, e.g. examples/tuning.py:EntireSpace"
        )
    try:
        module = load_file(Path(place)) if place.endswith(".py") or os.sep in place else importlib.import_module(place)
    except Exception as error:
        traceback.print_exc()
        raise Problem(f"{place} cannot be imported: {what(error)}") from error
    try:
        return getattr(module, name)
    except AttributeError:
        raise Problem(f"{place} has no class {name}") from None


def load_file(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    # As if it were run: its neighbours can be imported.
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
