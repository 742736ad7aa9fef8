"""What ``mneme-tune`` starts to use Python: search spaces written as classes, and Optuna.

``python -m mneme.tuning.bridge`` answers one JSON object a line with one JSON object a line. The tuner runs the session and replays
the candidates; this process is asked what a point means (``ground``), or which one to try next (``ask``), and told what came of it
(``tell``). Code of the user's may print: its standard output is the tuner's log.

Values of parameters cross in JSON. A parameter whose values JSON cannot hold is described by texts in their place, and what comes
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
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional, TextIO

from mneme.mneme_types import ExperimentConfiguration
from mneme.recorded_execution import RecordedExecution
from mneme.tuning import parameters as kinds

GENERATED = 256
"""Values that stand for a parameter without a list of them."""

POINT, SESSION = "mneme:point", "mneme:session"
"""User attributes of an Optuna trial: its point as JSON, and the results folder of the session that asked for it."""

OPENINGS = 10
RACES = ("IntegrityError", "ProgrammingError", "DuplicatedStudyError")
"""How often a study is opened where it fails in this way: sessions that start together in an empty database make its tables at the
same time, and all but one find them made under their hands."""


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
            return {"name": self.name, "kind": kind, "low": param.low, "high": param.high, "step": param.step, "log": param.log}
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
        return {"name": self.name, "kind": "categorical", "values": [crossed for crossed, _ in self.choices], "generated": generated}

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
    """A search space of the user's, for one recorded instance."""

    def __init__(self, target: str, arguments: Mapping[str, Any], database: str, instance: str) -> None:
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

    def ground(self, point: Mapping[str, Any]) -> dict[str, Any]:
        values = self.decode(point)
        try:
            allowed = self.space.constraints(values) if hasattr(self.space, "constraints") else True
            if not allowed:
                return {"type": "rejected", "reason": "constraints() does not allow it"}
            config = configuration(self.space.derived(values))
        except Exception as error:
            traceback.print_exc()
            return {"type": "rejected", "reason": what(error)}
        problem = config.problem()
        return {"type": "rejected", "reason": problem} if problem else {"type": "configuration", "config": config.to_dict()}

    def suggest(self, trial: Any) -> dict[str, Any]:
        """The point of an Optuna trial, by the space's own ``suggest`` where it has one."""
        own = getattr(self.space, "suggest", None)
        values = own(trial) if own else {each.name: each.param.suggest(trial) for each in self.parameters}
        return self.encode(values)


def named(name: str, param: Any) -> Parameter:
    param.name = name
    return Parameter(param)


def configuration(derived: Any) -> ExperimentConfiguration:
    return derived if isinstance(derived, ExperimentConfiguration) else ExperimentConfiguration.from_dict(derived)


def what(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def load_class(target: str) -> Any:
    """The class that ``MODULE_OR_PATH:CLASS`` names."""
    place, colon, name = target.rpartition(":")
    if not (place and colon and name):
        raise Problem(f"'{target}' names no class; write it as MODULE_OR_PATH:CLASS, e.g. examples/tuning.py:EntireSpace")
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
        return {each.name: each.encode(each.param.suggest(trial)) for each in self.parameters}


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

    def suggest_float(self, name: str, low: float, high: float, step: Optional[float] = None, log: bool = False) -> float:
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
        self.single = len(request["directions"]) == 1

    def ask(self) -> dict[str, Any]:
        trial = self.study.ask()
        point = self.space.suggest(trial)
        trial.set_user_attr(POINT, json.dumps(point, sort_keys=True))
        trial.set_user_attr(SESSION, self.session)
        self.running[trial.number] = trial
        return {"type": "trial", "number": trial.number, "point": point}

    def tell(self, number: int, values: Optional[list[float]], attributes: Mapping[str, Any]) -> dict[str, Any]:
        trial = self.running.pop(number)
        for name, value in attributes.items():
            trial.set_user_attr(name, value)
        self._settle(trial, values)
        return {"type": "told"}

    def _settle(self, trial: Any, values: Optional[list[float]]) -> None:
        states = self.optuna.trial.TrialState
        if values is not None:
            self.study.tell(trial, values)
        else:
            # Samplers take a pruned trial for one of the worst; one that failed would be ignored.
            self.study.tell(trial, state=states.PRUNED if self.single else states.FAIL)

    def report(self, number: int, step: int, value: float) -> dict[str, Any]:
        trial = self.running[number]
        trial.report(value, step)
        return {"type": "report", "prune": bool(trial.should_prune())}

    def recall(self, point: Mapping[str, Any], values: Optional[list[float]]) -> dict[str, Any]:
        """A trial of the session before it was interrupted, of which the storage may know nothing, the question or all."""
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
                self.study.tell(trial.number, state=states.FAIL)
        return {"type": "told"}


def storage(optuna: Any, place: Optional[str]) -> Any:
    if place is None:
        return None
    path = place.removeprefix("journal://")
    if path != place or ("://" not in place and place.endswith((".log", ".journal"))):
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        return JournalStorage(JournalFileBackend(path))
    return place if "://" in place else f"sqlite:///{place}"


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


class Bridge:
    """Spaces and a study, and the requests that they answer."""

    def __init__(self) -> None:
        self.spaces: list[Space] = []
        self.study: Optional[Study] = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        kind = request["type"]
        if kind == "space":
            space = Space(request["class"], request["arguments"], request["database"], request["instance"])
            try:
                baseline = configuration(space.space.baseline()).to_dict()
            except Exception as error:
                traceback.print_exc()
                raise Problem(f"baseline() of {request['class']} fails: {what(error)}") from error
            self.spaces.append(space)
            described = [each.description for each in space.parameters]
            return {"type": "space", "space": len(self.spaces) - 1, "parameters": described, "baseline": baseline}
        if kind == "ground":
            return self.spaces[int(request["space"])].ground(request["point"])
        if kind == "study":
            place = request.get("space")
            self.study = Study(request, Described(request["parameters"]) if place is None else self.spaces[int(place)])
            return {"type": "study", "trials": len(self.study.study.get_trials(deepcopy=False))}
        assert self.study is not None, "a study comes before its questions"
        if kind == "ask":
            return self.study.ask()
        if kind == "tell":
            return self.study.tell(request["number"], request.get("values"), request.get("attributes", {}))
        if kind == "report":
            return self.study.report(request["number"], request["step"], request["value"])
        if kind == "recall":
            return self.study.recall(request["point"], request.get("values"))
        if kind == "abandon":
            return self.study.abandon()
        raise Problem(f"the bridge knows no request '{kind}'; install mneme-tune and the package from one release")


def serve(requests: TextIO, replies: TextIO) -> None:
    bridge = Bridge()
    for line in requests:
        try:
            reply = bridge.answer(json.loads(line))
        except Problem as problem:
            reply = {"type": "error", "error": str(problem)}
        except Exception as error:
            traceback.print_exc()
            reply = {"type": "error", "error": what(error)}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def main() -> None:
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, replies)


if __name__ == "__main__":
    main()
