"""The dimensions of a search space. A parameter lists its values, draws one at random, or asks an
Optuna trial for one.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional, Union

from mneme.errors import SpaceError
from mneme.pipeline import PipelineManager


class BaseParam(ABC):
    """A named dimension."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def values(self) -> Iterator[Any]:
        """All values, in order. Raises :class:`SpaceError` where they cannot be counted."""

    @abstractmethod
    def sample_random(self, rng: random.Random) -> Any:
        """One value."""

    @abstractmethod
    def suggest(self, trial: Any) -> Any:
        """The value that an Optuna trial suggests."""

    def describe(self) -> dict[str, Any]:
        """Plain data, for logs and ``search_space.json``."""
        return {
            "type": type(self).__name__,
            **{name: value for name, value in vars(self).items() if not callable(value)},
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class FixedParam(BaseParam):
    """One value only."""

    def __init__(self, name: str, value: Any) -> None:
        super().__init__(name)
        self.value = value

    def values(self) -> Iterator[Any]:
        yield self.value

    def sample_random(self, rng: random.Random) -> Any:
        return self.value

    def suggest(self, trial: Any) -> Any:
        return self.value


class CategoricalParam(BaseParam):
    """One of a list, in no particular order."""

    def __init__(self, name: str, choices: Sequence[Any]) -> None:
        super().__init__(name)
        if not choices:
            raise ValueError(f"parameter {name!r} has no choices")
        self.choices = list(choices)

    def values(self) -> Iterator[Any]:
        return iter(self.choices)

    def sample_random(self, rng: random.Random) -> Any:
        return rng.choice(self.choices)

    def suggest(self, trial: Any) -> Any:
        # Optuna stores plain scalars only; anything else goes by its position.
        if all(choice is None or isinstance(choice, (bool, int, float, str)) for choice in self.choices):
            return trial.suggest_categorical(self.name, self.choices)
        return self.choices[trial.suggest_categorical(self.name, list(range(len(self.choices))))]


class BoolParam(CategoricalParam):
    """True or false."""

    def __init__(self, name: str) -> None:
        super().__init__(name, [True, False])


class IntRangeParam(BaseParam):
    """Integers from ``low`` to ``high``, both included, ``step`` apart; with ``log`` small ones are drawn as often as
    large ones.
    """

    def __init__(self, name: str, low: int, high: int, step: Optional[int] = 1, log: bool = False) -> None:
        super().__init__(name)
        if low > high:
            raise ValueError(f"parameter {name!r} goes from {low} down to {high}; low must not exceed high")
        if step is None or step <= 0:
            raise ValueError(f"parameter {name!r} has a step of {step}; it must be positive")
        if log and (low < 1 or step != 1):
            raise ValueError(f"parameter {name!r} is logarithmic: it must start at 1 or more and have a step of 1")
        self.low, self.high, self.step, self.log = low, high, step, log

    def values(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1, self.step))

    def sample_random(self, rng: random.Random) -> int:
        if self.log:
            return min(self.high, int(math.exp(rng.uniform(math.log(self.low), math.log(self.high + 1)))))
        return rng.randrange(self.low, self.high + 1, self.step)

    def suggest(self, trial: Any) -> int:
        if self.log:
            return int(trial.suggest_int(self.name, self.low, self.high, log=True))
        last = self.low + (self.high - self.low) // self.step * self.step
        return int(trial.suggest_int(self.name, self.low, last, step=self.step))


class RealRangeParam(BaseParam):
    """Real numbers from ``low`` to ``high``; with a ``step`` only multiples of it above ``low``."""

    def __init__(self, name: str, low: float, high: float, step: Optional[float] = None, log: bool = False) -> None:
        super().__init__(name)
        if not low <= high:
            raise ValueError(f"parameter {name!r} goes from {low} down to {high}; low must not exceed high")
        if step is not None and step <= 0:
            raise ValueError(f"parameter {name!r} has a step of {step}; it must be positive")
        if log and (low <= 0 or step is not None):
            raise ValueError(f"parameter {name!r} is logarithmic: it must be positive and have no step")
        self.low, self.high, self.step, self.log = float(low), float(high), step, log

    def values(self) -> Iterator[float]:
        if self.low == self.high:
            yield self.low
        elif self.step is None:
            raise SpaceError(
                f"parameter {self.name!r} is continuous and cannot be enumerated; give it a step, or sample at random"
            )
        else:
            for index in range(self._steps() + 1):
                yield self.low + index * self.step

    def _steps(self) -> int:
        assert self.step is not None
        return math.floor((self.high - self.low) / self.step * (1 + 1e-12))

    def sample_random(self, rng: random.Random) -> float:
        if self.step is not None:
            return self.low + rng.randint(0, self._steps()) * self.step
        if self.log:
            return math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        return rng.uniform(self.low, self.high)

    def suggest(self, trial: Any) -> float:
        how: dict[str, Any] = {"log": True} if self.log else {} if self.step is None else {"step": self.step}
        return float(trial.suggest_float(self.name, self.low, self.high, **how))


class PermutationParam(BaseParam):
    """An order of the given items."""

    def __init__(self, name: str, items: Sequence[Any]) -> None:
        super().__init__(name)
        if not items:
            raise ValueError(f"parameter {name!r} has no items")
        self.items = list(items)

    def values(self) -> Iterator[tuple[Any, ...]]:
        import itertools

        return itertools.permutations(self.items)

    def sample_random(self, rng: random.Random) -> tuple[Any, ...]:
        return tuple(rng.sample(self.items, len(self.items)))

    def suggest(self, trial: Any) -> tuple[Any, ...]:
        # A Lehmer code: independent integers, each of which any sampler can vary.
        rest = list(self.items)
        return tuple(rest.pop(trial.suggest_int(f"{self.name}[{n}]", 0, len(rest) - 1)) for n in range(len(self.items)))


class PipelineParam(BaseParam):
    """An LLVM pass pipeline: one of a list, whatever ``generator`` returns, or 1 to ``num_draws`` passes of
    :class:`~mneme.pipeline.PipelineManager`. A number as the second argument is ``num_draws``.
    """

    def __init__(
        self,
        name: str,
        pipelines: Union[Sequence[str], int, None] = None,
        generator: Optional[Callable[[], str]] = None,
        *,
        num_draws: Optional[int] = None,
    ) -> None:
        super().__init__(name)
        if isinstance(pipelines, int):
            pipelines, num_draws = None, pipelines
        if sum(given is not None for given in (pipelines, generator, num_draws)) != 1:
            raise ValueError(f"parameter {name!r} takes one of pipelines, a generator and a number of draws")
        if pipelines is not None and not pipelines:
            raise ValueError(f"parameter {name!r} has no pipelines")
        if num_draws is not None and num_draws < 1:
            raise ValueError(f"parameter {name!r} has {num_draws} draws; it needs at least 1")
        self.pipelines = None if pipelines is None else list(pipelines)
        self.generator = generator
        self.num_draws = num_draws

    @property
    def pass_manager(self) -> PipelineManager:
        return PipelineManager()

    @property
    def available_passes(self) -> list[str]:
        """The passes that are drawn from, sorted."""
        return sorted(self.pass_manager.get_passes())

    def _draw(self, integer: Callable[[str, int], int], choice: Callable[[str, list[str]], str]) -> str:
        """A pipeline of passes: ``integer`` gives its length, and ``choice`` each pass."""
        assert self.num_draws is not None
        manager, passes = self.pass_manager, self.available_passes
        length = integer(f"{self.name}.length", self.num_draws)
        concrete = manager.get_concrete_passes()
        return manager.to_string(concrete[choice(f"{self.name}.{place}", passes)] for place in range(length))

    def values(self) -> Iterator[str]:
        if self.pipelines is None:
            raise SpaceError(
                f"parameter {self.name!r} is generated and cannot be enumerated; give it pipelines, or sample at random"
            )
        return iter(self.pipelines)

    def sample_random(self, rng: random.Random) -> str:
        if self.pipelines is not None:
            return rng.choice(self.pipelines)
        if self.generator is not None:
            return self.generator()
        return self._draw(lambda _, most: rng.randint(1, most), lambda _, passes: rng.choice(passes))

    def suggest(self, trial: Any) -> str:
        if self.pipelines is not None:
            return str(trial.suggest_categorical(self.name, self.pipelines))
        if self.generator is None:
            return self._draw(lambda name, most: trial.suggest_int(name, 1, most), trial.suggest_categorical)
        # Optuna cannot model a generator: the trial carries what came out of it.
        pipeline = self.generator()
        trial.set_user_attr(self.name, pipeline)
        return pipeline
