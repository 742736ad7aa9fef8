"""A search space: what may be tuned, and how a point of it becomes a replay configuration."""

from __future__ import annotations

import itertools
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from mneme.errors import SpaceError
from mneme.mneme_types import Configuration
from mneme.tuning.parameters import (
    BaseParam,
    BoolParam,
    CategoricalParam,
    FixedParam,
    IntRangeParam,
    PermutationParam,
    PipelineParam,
    RealRangeParam,
)

__all__ = [
    "BaseParam",
    "BoolParam",
    "CategoricalParam",
    "FixedParam",
    "IntRangeParam",
    "PermutationParam",
    "PipelineParam",
    "RealRangeParam",
    "SearchSpace",
    "allows",
    "sample_optuna_param",
    "sample_random_param",
]

REJECTIONS = 10_000
"""Draws in a row that `constraints` may reject before a search gives up."""


def allows(space: Any, point: dict[str, Any]) -> bool:
    """Whether ``constraints`` of a space allows a point.

    Spaces written for the existing Mneme may expect the configuration (``params.block.x``). A point has no such
    attributes, so they get the configuration then.
    """
    try:
        return bool(space.constraints(point))
    except AttributeError:
        return bool(space.constraints(space.derived(point)))


def sample_random_param(param: BaseParam) -> Any:
    """A random value of a parameter."""
    return param.sample_random(random.Random())


def sample_optuna_param(trial: Any, param: BaseParam) -> Any:
    """The value of a parameter that an Optuna trial suggests."""
    return param.suggest(trial)


class SearchSpace(ABC):
    """Derive from this, and say what may be tuned.

    ``dimensions`` gives the parameters, ``constraints`` rejects points, ``derived`` makes a configuration of a point
    and ``baseline`` is what others are compared with. The last two may give a dictionary: what it leaves out is as
    recorded. What is sampled is of the type that ``derived`` gives. ``constraints`` may look at the attributes of a
    configuration instead of the items of a point (:func:`allows`).
    """

    @abstractmethod
    def dimensions(self) -> Mapping[str, BaseParam]:
        """The parameters by name. The last one varies fastest when the space is enumerated."""

    @abstractmethod
    def derived(self, params: dict[str, Any]) -> Configuration:
        """The configuration of a point."""

    def constraints(self, params: Any) -> bool:
        """Whether a point belongs to the space."""
        return True

    def baseline(self) -> Configuration:
        """The reference; the recorded launch unless you override it."""
        return {}

    def points(self) -> Iterator[dict[str, Any]]:
        """All points that satisfy the constraints."""
        dimensions = self.dimensions()
        for values in itertools.product(*(list(param.values()) for param in dimensions.values())):
            point = dict(zip(dimensions, values))
            if allows(self, point):
                yield point

    def sample_exhaustive(self) -> Iterator[Any]:
        """The configurations of all points."""
        return (self.derived(point) for point in self.points())

    def random_point(self, rng: Optional[random.Random] = None) -> dict[str, Any]:
        """A point that satisfies the constraints."""
        rng = rng or random.Random()
        dimensions = self.dimensions()
        for _ in range(REJECTIONS):
            point = {name: param.sample_random(rng) for name, param in dimensions.items()}
            if allows(self, point):
                return point
        raise SpaceError(
            f"constraints() rejected {REJECTIONS} random points in a row; derive valid points instead of "
            f"rejecting others"
        )

    def sample_random(self, rng: Optional[random.Random] = None) -> Any:
        """The configuration of a random point."""
        return self.derived(self.random_point(rng))

    def sample_optuna(self, study: Any) -> tuple[Any, Any]:
        """The configuration that an Optuna study asks for next, and its trial, which wants ``study.tell(trial,
        value)``.

        Points that the constraints reject are told to the study as pruned, and another one is asked for.
        """
        import optuna

        for _ in range(REJECTIONS):
            trial = study.ask()
            point = self.suggest(trial)
            if allows(self, point):
                return self.derived(point), trial
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        raise SpaceError(
            f"constraints() rejected {REJECTIONS} suggested points in a row; derive valid points instead of "
            f"rejecting others"
        )

    def suggest(self, trial: Any) -> dict[str, Any]:
        """The point that an Optuna trial suggests; conditional spaces ask for further parameters here."""
        return {name: param.suggest(trial) for name, param in self.dimensions().items()}
