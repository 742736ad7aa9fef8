"""How a search space is explored."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Optional

from mneme.tuning.search_space import SearchSpace


class SamplingStrategy(ABC):
    """Iterate over it to get what to replay next."""

    @abstractmethod
    def __iter__(self) -> Iterator[Any]: ...


class ExhaustiveSamplingStrategy(SamplingStrategy):
    """Every configuration of a finite space, the last dimension fastest."""

    def __init__(self, search_space: SearchSpace) -> None:
        self.space = search_space

    def __iter__(self) -> Iterator[Any]:
        return self.space.sample_exhaustive()


class RandomSamplingStrategy(SamplingStrategy):
    """``num_samples`` independent configurations; the same ones for the same ``seed``."""

    def __init__(self, search_space: SearchSpace, num_samples: int, seed: Optional[int] = None) -> None:
        self.space = search_space
        self.num_samples = num_samples
        self.seed = seed

    def __iter__(self) -> Iterator[Any]:
        # Spaces with a method of their own may take no generator.
        generator = () if self.seed is None else (random.Random(self.seed),)
        for _ in range(self.num_samples):
            yield self.space.sample_random(*generator)


class OptunaSamplingStrategy(SamplingStrategy):
    """What an Optuna study asks for, as pairs of a configuration and its trial.

    Report each with ``study.tell(trial, value)``. ``n_trials`` counts the trials that the study has already, so that a
    study in a persistent storage goes on where it stopped.
    """

    def __init__(self, search_space: SearchSpace, study: Any, n_trials: int) -> None:
        self.space = search_space
        self.study = study
        self.n_trials = n_trials

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        # Counting trials of a large study costs a look at each of them.
        remaining = self.n_trials - len(self.study.trials)
        for _ in range(remaining):
            yield self.space.sample_optuna(self.study)
