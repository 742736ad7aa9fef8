import random
from pathlib import Path
from typing import Any

import pytest

from mneme import ExperimentConfiguration, SpaceError
from mneme.pipeline import PipelineManager
from mneme.tuning.sample_strategy import ExhaustiveSamplingStrategy, OptunaSamplingStrategy, RandomSamplingStrategy
from mneme.tuning.search_space import (
    BoolParam,
    CategoricalParam,
    FixedParam,
    IntRangeParam,
    PermutationParam,
    PipelineParam,
    RealRangeParam,
    SearchSpace,
    sample_optuna_param,
    sample_random_param,
)

ROOT = Path(__file__).resolve().parents[2]


class Space(SearchSpace):
    def __init__(self, limit: int = 256) -> None:
        self.limit = limit

    def dimensions(self) -> dict[str, Any]:
        return {
            "block": IntRangeParam("block", 64, 256, 64),
            "passes": CategoricalParam("passes", ["default<O2>", "default<O3>"]),
        }

    def constraints(self, params: dict[str, Any]) -> bool:
        return bool(params["block"] <= self.limit)

    def derived(self, params: dict[str, Any]) -> ExperimentConfiguration:
        return ExperimentConfiguration.from_dict({"block": {"x": params["block"]}, "passes": params["passes"]})

    def baseline(self) -> ExperimentConfiguration:
        return ExperimentConfiguration()


def test_the_last_dimension_varies_fastest() -> None:
    found = [(config.block.x, config.passes) for config in ExhaustiveSamplingStrategy(Space(128))]
    assert found == [(64, "default<O2>"), (64, "default<O3>"), (128, "default<O2>"), (128, "default<O3>")]


def test_random_samples_repeat_with_their_seed() -> None:
    one = [config.hash() for config in RandomSamplingStrategy(Space(), 20, seed=7)]
    assert one == [config.hash() for config in RandomSamplingStrategy(Space(), 20, seed=7)]
    assert len(set(one)) > 1


def test_a_space_without_points_is_said_to_be_so() -> None:
    with pytest.raises(SpaceError, match="rejected"):
        Space(0).sample_random()


def test_optuna_asks_for_valid_points_and_goes_on_where_a_study_stopped() -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    for config, trial in OptunaSamplingStrategy(Space(128), study, 10):
        assert config.block.x <= 128
        study.tell(trial, config.block.x)
    assert study.best_value == 64
    before = len(study.trials)
    assert len(list(OptunaSamplingStrategy(Space(), study, before + 3))) == 3


@pytest.mark.parametrize(
    "param",
    [
        IntRangeParam("p", 3, 17, 5),
        CategoricalParam("p", ["a", None, 3]),
        CategoricalParam("p", [(1, 2), (3, 4)]),
        BoolParam("p"),
        FixedParam("p", 5),
        RealRangeParam("p", 0.0, 1.0, 0.25),
        PermutationParam("p", "abc"),
        PipelineParam("p", ["default<O1>", "default<Os>"]),
    ],
)
def test_samples_are_among_the_values(param: Any) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    values = list(param.values())
    rng = random.Random(3)
    assert {repr(param.sample_random(rng)) for _ in range(200)} == {repr(value) for value in values}
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=2))
    assert {repr(param.suggest(study.ask())) for _ in range(200)} == {repr(value) for value in values}


def test_pipelines_are_drawn_pass_by_pass() -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    param, manager = PipelineParam("passes", 12), PipelineManager()
    assert param.num_draws == 12
    assert param.available_passes == sorted(manager.get_passes())
    rng, study = random.Random(5), optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=2))
    found = [sample_random_param(param), *(param.sample_random(rng) for _ in range(50))]
    found += [sample_optuna_param(study.ask(), param) for _ in range(50)]
    assert all(1 <= len(manager.from_string(pipeline)) <= 12 for pipeline in found)
    assert len(set(found)) > 50
    trial = study.ask()
    drawn = param.suggest(trial)
    assert param.suggest(optuna.trial.FixedTrial(trial.params)) == drawn, "the trial has all of the pipeline"


class OfConfigurations(SearchSpace):
    """A space as the existing Mneme's documentation has it: without a baseline, and with constraints on the
    configuration.
    """

    def dimensions(self) -> dict[str, Any]:
        return Space().dimensions()

    def derived(self, params: dict[str, Any]) -> ExperimentConfiguration:
        return Space().derived(params)

    def constraints(self, config: Any) -> bool:
        return bool(config.block.x <= 128)


def test_constraints_may_be_on_configurations() -> None:
    assert [config.block.x for config in ExhaustiveSamplingStrategy(OfConfigurations())] == [64, 64, 128, 128]
    assert OfConfigurations().sample_random().block.x <= 128
    assert OfConfigurations().baseline() == {}


def test_what_cannot_be_enumerated_says_so() -> None:
    drawn = PipelineParam("p", 3)
    for param in (RealRangeParam("p", 0.0, 1.0), PipelineParam("p", generator=lambda: "default<O3>"), drawn):
        with pytest.raises(SpaceError, match="'p'"):
            list(param.values())


def test_logarithmic_ranges_stay_inside() -> None:
    rng = random.Random(1)
    ints = [IntRangeParam("p", 1, 1000, log=True).sample_random(rng) for _ in range(2000)]
    assert min(ints) >= 1
    assert max(ints) <= 1000
    assert sum(value < 32 for value in ints) > 700
    reals = [RealRangeParam("p", 1e-6, 1.0, log=True).sample_random(rng) for _ in range(500)]
    assert 1e-6 <= min(reals) < 1e-4 < 0.1 < max(reals) <= 1.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: IntRangeParam("p", 3, 1),
        lambda: IntRangeParam("p", 1, 3, 0),
        lambda: IntRangeParam("p", 0, 3, log=True),
        lambda: RealRangeParam("p", 1.0, 0.0),
        lambda: CategoricalParam("p", []),
        lambda: PipelineParam("p"),
        lambda: PipelineParam("p", ["a"], lambda: "b"),
        lambda: PipelineParam("p", 0),
    ],
)
def test_impossible_parameters_are_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="'p'"):
        make()


def test_the_class_on_the_page_passes_mypy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mypy = pytest.importorskip("mypy.api")
    page = (ROOT / "docs/guides/python.md").read_text()
    module = tmp_path / "blocks.py"
    module.write_text(page.split("```python\n# blocks.py\n")[1].split("```")[0])
    monkeypatch.setenv("MYPYPATH", str(ROOT / "python"))
    options = [
        "--strict",
        "--config-file=",
        "--follow-imports=silent",
        f"--cache-dir={ROOT / 'python/.mypy_cache/page'}",
    ]
    out, err, status = mypy.run([*options, str(module)])
    assert status == 0, out + err
