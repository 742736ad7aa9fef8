"""Optuna's studies, which say what to try next and are told what came of it."""

from __future__ import annotations

import json
import random
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Optional

from mneme.tuning import parameters as kinds
from mneme.tuning.user_space import Parameter, Problem, what

POINT, SESSION = "mneme:point", "mneme:session"
"""User attributes of an Optuna trial: its point as JSON, and the results folder of the session that asked for it."""

OPENINGS = 10
RACES = ("IntegrityError", "ProgrammingError", "DuplicatedStudyError")
"""How often a study is opened where it fails in this way: sessions that start together in an empty database make its
tables at the same time, and all but one find them made under their hands.
"""


PATIENCE = 120.0
"""Seconds for which a storage that does not answer is asked again: a database that is started anew takes a while."""

OUTAGES = ("OperationalError", "InterfaceError", "StorageInternalError")


def described(parameter: Mapping[str, Any]) -> Any:
    """The parameter that the tuner describes, for spaces that are not Python's."""
    name, kind = parameter["name"], parameter["kind"]
    if kind == "integer":
        return kinds.IntRangeParam(name, parameter["low"], parameter["high"], parameter["step"], parameter["log"])
    if kind == "real":
        return kinds.RealRangeParam(name, parameter["low"], parameter["high"], parameter["step"], parameter["log"])
    if kind == "permutation":
        return kinds.PermutationParam(name, parameter["values"])
    return kinds.CategoricalParam(name, parameter["values"])


class Described:
    """A space of the tuner's own."""

    def __init__(self, parameters: list[Mapping[str, Any]]) -> None:
        self.parameters = [Parameter(described(each)) for each in parameters]

    def suggest(self, trial: Any) -> dict[str, Any]:
        # A known point has only the parameters that apply.
        known = trial.point if isinstance(trial, Repeated) else None
        applying = [each for each in self.parameters if known is None or each.name in known]
        return {each.name: each.encode(each.param.suggest(trial)) for each in applying}


class Repeated:
    """In the place of an Optuna trial: suggests what a known point has, and notes what a trial with it consists of."""

    def __init__(self, point: Mapping[str, Any], parameters: list[Parameter]) -> None:
        self.point = dict(point)
        self.choices = {each.name: [crossed for crossed, _ in each.choices or []] for each in parameters}
        self.params: dict[str, Any] = {}
        self.distributions: dict[str, Any] = {}

    def _note(self, name: str, value: Any, distribution: Any) -> Any:
        self.params[name], self.distributions[name] = value, distribution
        return value

    def suggest_int(self, name: str, low: int, high: int, step: int = 1, log: bool = False) -> int:
        from optuna.distributions import IntDistribution

        base, bracket, place = name.partition("[")
        if bracket:
            # A digit of a permutation's Lehmer code.
            order = list(self.point[base])
            digits, rest = [], sorted(order, key=self.choices[base].index)
            for item in order:
                digits.append(rest.index(item))
                rest.remove(item)
            return int(self._note(name, digits[int(place[:-1])], IntDistribution(low, high)))
        return int(self._note(name, self.point[name], IntDistribution(low, high, log=log, step=step)))

    def suggest_float(
        self, name: str, low: float, high: float, step: Optional[float] = None, log: bool = False
    ) -> float:
        from optuna.distributions import FloatDistribution

        return float(self._note(name, self.point[name], FloatDistribution(low, high, log=log, step=step)))

    def suggest_categorical(self, name: str, choices: list[Any]) -> Any:
        from optuna.distributions import CategoricalDistribution

        value = self.point[name]
        if value not in choices:
            value = self.choices[name].index(value)
        return self._note(name, value, CategoricalDistribution(choices))

    def set_user_attr(self, name: str, value: Any) -> None:
        pass


class Study:
    """An Optuna study that is asked and told."""

    def __init__(self, request: Mapping[str, Any], space: Any) -> None:
        try:
            import optuna
        except ImportError:
            raise Problem(
                f"{sys.executable} has no module optuna, which --study-name, --optuna-storage and --pruner need; "
                "install it (pip install optuna) or name a Python that has it (--python)"
            ) from None
        self.optuna = optuna
        self.space = space
        self.session: str = request["session"]
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        name = request.get("name") or (f"mneme {request['kernel']}" if request.get("storage") else None)
        for left in reversed(range(OPENINGS)):
            try:
                self.study = optuna.create_study(
                    study_name=name,
                    storage=storage(optuna, request.get("storage")),
                    sampler=sampler(optuna, request["sampler"], request.get("seed")),
                    pruner=pruner(optuna, request.get("pruner")),
                    directions=request["directions"],
                    load_if_exists=True,
                )
                break
            except Exception as error:
                if left and type(error).__name__ in RACES:
                    time.sleep(random.uniform(0.2, 1.0))
                    continue
                traceback.print_exc()
                raise Problem(f"Optuna cannot open the study{f' {name!r}' if name else ''}: {what(error)}") from error
        self.running: dict[int, Any] = {}
        self.shared = request.get("storage") is not None
        self.single = len(request["directions"]) == 1

    def ask(self) -> dict[str, Any]:
        trial = persistently(self.study.ask)
        persistently(lambda: trial.set_user_attr(SESSION, self.session))
        point = persistently(lambda: self.space.suggest(trial))
        self.running[trial.number] = trial
        return {"type": "trial", "number": trial.number, "point": point}

    def claim(self, number: int, point: Mapping[str, Any], force: bool) -> dict[str, Any]:
        """Takes the point that a trial comes to, of the parameters that apply, unless another session has it: then the
        trial is closed. ``force`` takes it all the same."""
        trial = self.running[number]
        text = json.dumps(point, sort_keys=True)
        persistently(lambda: trial.set_user_attr(POINT, text))
        is_free = force or not self._is_of_another(text)
        if not is_free:
            # What two sessions propose at the same time neither tries, and either may propose again.
            self._finish(self.running.pop(number), state=self.optuna.trial.TrialState.FAIL)
        return {"type": "claim", "taken": is_free}

    def _is_of_another(self, point: str) -> bool:
        """Whether another session has tried a point, or is about to."""
        if not self.shared:
            return False
        states = self.optuna.trial.TrialState
        trials = persistently(
            lambda: self.study.get_trials(deepcopy=False, states=(states.RUNNING, states.COMPLETE, states.PRUNED))
        )
        return any(it.user_attrs.get(POINT) == point and it.user_attrs.get(SESSION) != self.session for it in trials)

    def _finish(self, trial: Any, values: Optional[list[float]] = None, state: Any = None) -> None:
        """Ends a trial once, whatever becomes of the storage's answer."""
        number = trial if isinstance(trial, int) else trial.number

        def tell() -> None:
            try:
                self.study.tell(trial, values, state=state)
            except Exception as error:
                known = {it.number: it for it in self.study.get_trials(deepcopy=False)}.get(number)
                if is_outage(error) or known is None or not known.state.is_finished():
                    raise

        persistently(tell)

    def tell(self, number: int, values: Optional[list[float]], attributes: Mapping[str, Any]) -> dict[str, Any]:
        trial = self.running.pop(number)
        for name, value in attributes.items():
            persistently(lambda name=name, value=value: trial.set_user_attr(name, value))  # type: ignore[misc]
        self._settle(trial, values)
        return {"type": "told"}

    def _settle(self, trial: Any, values: Optional[list[float]]) -> None:
        states = self.optuna.trial.TrialState
        if values is not None:
            self._finish(trial, values)
        else:
            # Samplers take a pruned trial for one of the worst; one that failed would be ignored.
            self._finish(trial, state=states.PRUNED if self.single else states.FAIL)

    def report(self, number: int, step: int, value: float) -> dict[str, Any]:
        trial = self.running[number]
        trial.report(value, step)
        return {"type": "report", "prune": bool(trial.should_prune())}

    def recall(self, point: Mapping[str, Any], values: Optional[list[float]]) -> dict[str, Any]:
        """A trial of the session before it was interrupted, of which the storage may know nothing,
        the question or all.
        """
        states = self.optuna.trial.TrialState
        text = json.dumps(point, sort_keys=True)
        for trial in self.study.get_trials(deepcopy=False):
            if trial.user_attrs.get(POINT) == text and trial.user_attrs.get(SESSION) == self.session:
                if trial.state == states.RUNNING:
                    self._settle(trial.number, values)
                return {"type": "told"}
        known = Repeated(point, self.space.parameters)
        try:
            self.space.suggest(known)
            state = states.COMPLETE if values is not None else states.PRUNED if self.single else states.FAIL
            trial = self.optuna.trial.create_trial(
                state=state,
                values=values,
                params=known.params,
                distributions=known.distributions,
                user_attrs={POINT: text, SESSION: self.session},
            )
            self.study.add_trial(trial)
        except Exception:
            # A trial that the sampler does not learn of costs a little wisdom and nothing else.
            traceback.print_exc()
        return {"type": "told"}

    def abandon(self) -> dict[str, Any]:
        """Trials that the session asked for before it was interrupted, and that nobody will answer."""
        states = self.optuna.trial.TrialState
        for trial in self.study.get_trials(deepcopy=False, states=(states.RUNNING,)):
            if trial.user_attrs.get(SESSION) == self.session and trial.number not in self.running:
                self._finish(trial.number, state=states.FAIL)
        return {"type": "told"}


def storage(optuna: Any, place: Optional[str]) -> Any:
    if place is None:
        return None
    path = place.removeprefix("journal://")
    if path != place or ("://" not in place and place.endswith((".log", ".journal"))):
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        return JournalStorage(JournalFileBackend(path))
    if "://" not in place or place.startswith("sqlite:"):
        return place if "://" in place else f"sqlite:///{place}"
    from optuna.storages import RDBStorage

    # Connections of before are gone where the database was started anew.
    return RDBStorage(place, engine_kwargs={"pool_pre_ping": True})


def is_outage(error: BaseException) -> bool:
    """Whether a storage did not answer, which another time it may."""
    return any(each.__name__ in OUTAGES for each in type(error).__mro__)


def persistently(action: Callable[[], Any]) -> Any:
    """What an action comes to once the storage answers."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return action()
        except Exception as error:
            if not is_outage(error) or time.monotonic() > end:
                raise
            time.sleep(random.uniform(0.2, 1.0))


def sampler(optuna: Any, name: str, seed: Optional[int]) -> Any:
    samplers = {"tpe": "TPESampler", "random": "RandomSampler", "nsga2": "NSGAIISampler"}
    options: dict[str, Any] = {"seed": None if seed is None else seed % 2**32}
    if name == "tpe":
        # Candidates are under way while others are asked for.
        options["constant_liar"] = True
    return getattr(optuna.samplers, samplers[name])(**options)


def pruner(optuna: Any, name: Optional[str]) -> Any:
    pruners = {
        None: "NopPruner",
        "none": "NopPruner",
        "median": "MedianPruner",
        "hyperband": "HyperbandPruner",
        "successive-halving": "SuccessiveHalvingPruner",
    }
    return optuna.pruners.PercentilePruner(25.0) if name == "percentile" else getattr(optuna.pruners, pruners[name])()
