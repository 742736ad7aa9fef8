"""What mneme-tune starts to use Python, asked as the tuner asks it; the records of sessions need no device here."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mneme.tuning import user_space
from mneme.tuning.bridge import serve
from mneme.tuning.study import Described, Study

SPACE = """
from mneme.tuning.search_space import *
from mneme.mneme_types import ExperimentConfiguration
print("user code may print")

class Space(SearchSpace):
    def __init__(self, kernel, low=64):
        self.kernel, self.low = kernel, low

    def dimensions(self):
        return {
            "block": IntRangeParam("block", self.low, 256, 64),
            "shape": CategoricalParam("shape", [(1, 2), (3, 4)]),
            "when": BoolParam("when"),
            "share": RealRangeParam("share", 0.0, 1.0),
            "order": PermutationParam("order", ["x", "y", "z"]),
            "passes": PipelineParam("passes", generator=lambda: "default<O1>"),
        }

    def constraints(self, params):
        return params["block"] != 128

    def derived(self, params):
        assert isinstance(params["shape"], tuple) and isinstance(params["order"], tuple)
        return ExperimentConfiguration(block={"x": params["block"] * params["shape"][0]}, passes=params["passes"])

    def baseline(self):
        return ExperimentConfiguration(grid=self.kernel.grid_dim, block=self.kernel.block_dim)
"""

POINT = {"block": 64, "shape": [1, 2], "when": True, "share": 0.5, "order": ["z", "x", "y"], "passes": "default<O1>"}
LOST = {**POINT, "share": 0.25}


@pytest.fixture
def space(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "space.py").write_text(SPACE)
    dims = {"x": 6, "y": 1, "z": 1}
    instance = {
        "Prologue": "p",
        "Epilogue": "e",
        "BlockDims": dims,
        "GridDims": dims,
        "SharedMem": 0,
        "Args": [],
        "Occurrences": 1,
    }
    record = {
        "StaticHash": 5,
        "KernelName": "k",
        "DemangledName": "k()",
        "Modules": [],
        "ArgNames": [],
        "Specializations": [],
    }
    (tmp_path / "5.json").write_text(
        json.dumps({**record, "VAddr": "0x0", "VASize": 0, "BinaryBlobs": [], "instances": {"1": instance}})
    )
    return {
        "type": "space",
        "class": f"{tmp_path / 'space.py'}:Space",
        "arguments": {},
        "database": str(tmp_path / "5.json"),
        "instance": "1",
    }


def ask(*requests: dict[str, Any]) -> list[dict[str, Any]]:
    replies = io.StringIO()
    serve(io.StringIO("".join(json.dumps(request) + "\n" for request in requests)), replies)
    return [json.loads(line) for line in replies.getvalue().splitlines()]


def study(storage: Path, **more: Any) -> dict[str, Any]:
    return {
        "type": "study",
        "name": "s",
        "kernel": "k",
        "session": "/results",
        "sampler": "tpe",
        "seed": 3,
        "directions": ["minimize"],
        "storage": str(storage),
        **more,
    }


SPARSE = """
from mneme.tuning.search_space import *

class Sparse(SearchSpace):
    def __init__(self, kernel):
        pass

    def dimensions(self):
        return {"width": CategoricalParam("width", [64, 128])}

    def derived(self, params):
        return {"block": {"x": params["width"]}}

    def baseline(self):
        return {}
"""


def test_what_a_dictionary_leaves_out_is_as_recorded(space: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "sparse.py").write_text(SPARSE)
    recorded = {"grid": {"x": 6, "y": 2, "z": 1}, "block": {"x": 6, "y": 4, "z": 1}, "internalize": False}
    opened, grounded = ask(
        {**space, "class": f"{tmp_path / 'sparse.py'}:Sparse", "recorded": recorded},
        {"type": "ground", "space": 0, "point": {"width": 128}},
    )
    assert {name: opened["baseline"][name] for name in recorded} == recorded
    assert grounded["config"]["block"] == {"x": 128, "y": 4, "z": 1}
    assert (grounded["config"]["grid"], grounded["config"]["internalize"]) == (recorded["grid"], False)


def test_points_become_configurations(space: dict[str, Any]) -> None:
    opened, grounded, rejected, invalid = ask(
        space,
        {"type": "ground", "space": 0, "point": POINT},
        {"type": "ground", "space": 0, "point": {**POINT, "block": 128}},
        {"type": "ground", "space": 0, "point": {**POINT, "block": 2048}},
    )
    assert opened["baseline"]["block"] == {"x": 6, "y": 1, "z": 1}
    described = {each["name"]: each for each in opened["parameters"]}
    assert (described["block"]["low"], described["block"]["step"], described["shape"]["values"]) == (
        64,
        64,
        [[1, 2], [3, 4]],
    )
    assert described["when"]["values"] == [True, False], "in the order in which Python lists them"
    assert (described["passes"]["generated"], described["shape"]["generated"]) == (True, False)
    assert grounded["config"]["block"]["x"] == 64
    assert "constraints()" in rejected["reason"]
    assert "2048" in invalid["reason"]


def test_mistakes_are_sentences(space: dict[str, Any]) -> None:
    target = space["class"].rpartition(":")[0]
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"class": "nowhere:Space"}, "nowhere cannot be imported"),
        ({"class": f"{target}:Other"}, "has no class Other"),
        ({"class": "Space"}, "MODULE_OR_PATH:CLASS"),
        ({"arguments": {"height": 4}}, "cannot be made for the recorded kernel: TypeError"),
        ({"instance": "2"}, "no recorded instance 2"),
    ]
    for change, expected in mistakes:
        (reply,) = ask({**space, **change})
        assert expected in reply["error"], reply
    assert ask({**space, "arguments": {"low": 128}})[0]["parameters"][0]["low"] == 128


def test_a_study_is_asked_and_told(space: dict[str, Any], tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    storage = tmp_path / "study.journal"
    replies = ask(
        space,
        study(storage, space=0, pruner="median"),
        {"type": "ask"},
        {"type": "report", "number": 0, "step": 0, "value": 3.0},
        {"type": "tell", "number": 0, "values": [3.0]},
        {"type": "ask"},
        {"type": "tell", "number": 1, "values": None},
        {"type": "ask"},
        {"type": "claim", "number": 2, "point": LOST},
        {"type": "ask"},
    )
    assert all("error" not in reply for reply in replies), replies
    assert sorted(replies[2]["point"]) == sorted(POINT)

    # The session goes on in another process: it was killed after it had asked for the third trial and a fourth that it
    # had not claimed, and knows of a fifth.
    replies = ask(
        space,
        study(storage, space=0),
        {"type": "recall", "point": LOST, "values": [2.0]},
        {"type": "recall", "point": POINT, "values": [1.0]},
        {"type": "recall", "point": POINT, "values": [1.0]},
        {"type": "ask"},
    )
    assert replies[1] == {"type": "study", "trials": 4}
    ask(space, study(storage, space=0), {"type": "abandon"})
    backend = optuna.storages.journal.JournalFileBackend(str(storage))
    trials = optuna.load_study(study_name="s", storage=optuna.storages.JournalStorage(backend)).trials
    assert [trial.state.name for trial in trials] == ["COMPLETE", "PRUNED", "COMPLETE", "FAIL", "COMPLETE", "FAIL"]
    assert [trials[2].values, trials[4].values] == [[2.0], [1.0]]
    assert trials[4].params["block"] == 64 and trials[4].params["order[0]"] == 2


def test_sessions_that_start_together_open_one_study(monkeypatch: pytest.MonkeyPatch) -> None:
    optuna = pytest.importorskip("optuna")
    request = {"sampler": "random", "seed": 1, "directions": ["minimize"], "session": "s", "kernel": "k"}
    open_study, failures = (
        optuna.create_study,
        [type("IntegrityError", (Exception,), {})("the tables are there") for _ in range(2)],
    )

    def create_study(**options: Any) -> Any:
        if failures:
            raise failures.pop()
        return open_study(**options)

    monkeypatch.setattr(optuna, "create_study", create_study)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert Study(request, Described([])).ask()["number"] == 0
    failures += [ConnectionError("nobody answers"), ConnectionError("nobody is asked twice")]
    with pytest.raises(user_space.Problem, match="nobody is asked twice"):
        Study(request, Described([]))


def test_a_space_of_the_tuners_own_is_sampled_too(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    parameters: list[dict[str, Any]] = [
        {"name": "block_shape", "kind": "categorical", "values": [{"x": 1, "y": 1, "z": 1}, {"x": 2, "y": 1, "z": 1}]},
        {"name": "codegen_opt", "kind": "integer", "low": 1, "high": 3, "step": 1, "log": False},
    ]
    known = {"block_shape": {"x": 2, "y": 1, "z": 1}, "codegen_opt": 3}
    _, recalled, asked = ask(
        study(tmp_path / "study.journal", parameters=parameters),
        {"type": "recall", "point": known, "values": [4.0]},
        {"type": "ask"},
    )
    assert recalled == {"type": "told"}
    assert asked["point"]["block_shape"] in parameters[0]["values"]


def test_what_users_print_is_no_answer(space: dict[str, Any]) -> None:
    request = json.dumps(space) + "\n"
    process = subprocess.run(
        [sys.executable, "-m", "mneme.tuning.bridge"], input=request, capture_output=True, text=True, check=True
    )
    assert json.loads(process.stdout)["type"] == "space"
    assert "user code may print" in process.stderr


def shared_study(place: Path, session: str) -> Study:
    request = {
        "storage": f"sqlite:///{place}",
        "name": "shared",
        "sampler": "random",
        "directions": ["minimize"],
        "session": session,
        "kernel": "k",
    }
    return Study(request, Described([{"name": "x", "kind": "integer", "low": 0, "high": 7, "step": 1, "log": False}]))


def claimed(study: Study) -> dict[str, Any]:
    """A trial whose point no other session has."""
    while True:
        asked = study.ask()
        if study.claim(asked["number"], asked["point"], False)["taken"]:
            return asked


def test_what_another_session_tries_is_not_proposed(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    one, other = (shared_study(tmp_path / "study.db", name) for name in ("one", "other"))
    theirs, own = set(), set()
    for _ in range(4):
        asked = claimed(one)
        theirs.add(asked["point"]["x"])
        one.tell(asked["number"], [1.0], {})
        own.add(claimed(other)["point"]["x"])
    assert not theirs & own, (theirs, own)
    # Where there is nothing else, it is.
    asked = other.ask()
    assert other.claim(asked["number"], {"x": min(theirs)}, True)["taken"]


def test_parameters_that_do_not_apply_make_no_other_point(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    one, other = (shared_study(tmp_path / "study.db", name) for name in ("one", "other"))
    assert one.claim(one.ask()["number"], {}, False)["taken"]
    assert not other.claim(other.ask()["number"], {}, False)["taken"]
    # A session that goes on finds it by what applies, or adds what does.
    one.recall({}, [4.0])
    one.recall({"y": 1}, [5.0])
    trials = one.study.get_trials()
    assert [(trial.state.name, trial.values, len(trial.params)) for trial in trials] == [
        ("COMPLETE", [4.0], 1),
        ("FAIL", None, 1),
        ("COMPLETE", [5.0], 0),
    ]


def test_a_storage_that_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from mneme.tuning import study

    class OperationalError(Exception):
        pass

    answers: list[Any] = [OperationalError("the server is gone"), OperationalError("it starts"), 7]

    def ask() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("time.sleep", lambda _: None)
    assert study.persistently(ask) == 7 and not answers
    with pytest.raises(ZeroDivisionError):
        study.persistently(lambda: 1 // 0)
    monkeypatch.setattr(study, "PATIENCE", -1.0)
    answers.append(OperationalError("it stays away"))
    with pytest.raises(OperationalError):
        study.persistently(ask)


def test_a_trial_that_was_told_without_an_answer_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")

    class OperationalError(Exception):
        pass

    study = shared_study(tmp_path / "study.db", "one")
    asked, tell, told = study.ask(), study.study.tell, []

    def lost(*arguments: Any, **options: Any) -> Any:
        outcome = tell(*arguments, **options)
        told.append(outcome)
        if len(told) == 1:
            raise OperationalError("the answer was lost")
        return outcome

    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(study.study, "tell", lost)
    study.tell(asked["number"], [3.0], {})
    assert [trial.value for trial in study.study.get_trials()] == [3.0] and len(told) == 1
