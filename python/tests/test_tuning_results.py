"""What mneme-tune leaves for people and other programs: the report, the table, the study."""

from __future__ import annotations

import csv
import json
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from conftest import DEVICE

from mneme import ExperimentConfiguration

optuna = pytest.importorskip("optuna")


SPELLINGS = """
parameters:
  specialize: {type: categorical, values: [[2, 0], [], true]}
  timeout_s: [100, 2.5e-5]
  tolerance: {type: categorical, values: [{dtype: f32, threshold: 1}, {ignore: true}, {threshold: 1.5e-6},
    {dtype: f64, threshold: 1.0e+16}]}
"""
"""Values that may be spelt in several ways."""


@pytest.fixture(scope="module")
def results(database: Path, record_id: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of four pipelines, one of which crashes the compiler."""
    folder = tmp_path_factory.mktemp("tuning") / "a session"
    tune = ["mneme-tune", "-rdb", str(database), "-rid", record_id, "--device", DEVICE, "--space-preset", "compiler"]
    passes = ["default<O3>", "default<O1>", "default<O0>", "trigger-crash-module"]
    options = ["--passes", *passes, "--fixed-codegen-opt", "3", "--iterations", "2", "--warmup", "1", "--quiet"]
    subprocess.run([*tune, *options, "--results-dir", str(folder)], check=True, stdout=subprocess.DEVNULL)
    return folder


def trials(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (results / "trials.jsonl").read_text().splitlines()]


def report(results: Path, *options: str) -> None:
    subprocess.run(["mneme-tune", "report", str(results), *options], check=True)


class Page(HTMLParser):
    """The elements of a page, and where they point to."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.targets += [value or "" for name, value in attrs if name in ("src", "href", "data", "action")]


def test_the_tuner_and_the_package_have_one_hash(results: Path, database: Path, record_id: str, tmp_path: Path) -> None:
    space = tmp_path / "space.yaml"
    space.write_text(SPELLINGS)
    tune = [
        "mneme-tune",
        "-rdb",
        str(database),
        "-rid",
        record_id,
        "--device",
        DEVICE,
        "--space",
        str(space),
        "--sampler",
        "exhaustive",
    ]
    options = [
        "--iterations",
        "1",
        "--warmup",
        "0",
        "--finalists",
        "0",
        "--quiet",
        "--results-dir",
        str(tmp_path / "results"),
    ]
    subprocess.run([*tune, *options], check=True, stdout=subprocess.DEVNULL)
    tried = [*trials(results), *trials(tmp_path / "results")]
    assert len(tried) == 4 + 24
    for trial in tried:
        assert ExperimentConfiguration.from_dict(trial["config"]).ground().hash() == trial["config_hash"], trial


def test_the_files_have_the_keys_of_the_existing_mneme(results: Path, database: Path, record_id: str) -> None:
    def read(name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((results / name).read_text())
        return content

    best, summary, space = read("best.json"), read("summary.json"), read("search_space.json")
    assert best["status"] == "success"
    assert best["baseline_metric"] == summary["baseline_metric"]
    assert best["best_metric"] == summary["best_metric"]
    assert Path(best["record"]["record_database"]).samefile(database)
    assert best["record"]["record_id"] == record_id
    assert best["record"]["kernel_name"] == json.loads(database.read_text())["KernelName"]
    assert [trial["status"] for trial in trials(results)] == [trial["result"]["status"] for trial in trials(results)]
    assert (space["type"], space["preset"]) == ("builtin", "compiler")
    assert space["dimensions"]["passes"]["type"] == "categorical"
    assert len(space["dimensions"]["passes"]["choices"]) == 4
    # A session whose best is the recorded configuration has nothing for Proteus.
    tuned = (results / "proteus_tuned_kernels.json").exists()
    assert (results / "proteus_usage.txt").exists() == tuned == ("trial" in best)


def test_the_report_is_one_page(results: Path) -> None:
    written = (results / "report.html").read_text()
    page = Page()
    page.feed(written)
    assert page.elements.count("svg") >= 2 and not page.targets
    assert "trigger-crash-module" in written and "mneme replay -rdb" in written
    (results / "report.html").unlink()
    report(results)
    assert "trigger-crash-module" in (results / "report.html").read_text()


def test_the_table_has_a_row_for_each_trial(results: Path, tmp_path: Path) -> None:
    report(results, "--output", str(tmp_path / "elsewhere.html"), "--csv", str(tmp_path / "trials.csv"))
    assert (tmp_path / "elsewhere.html").exists()
    with open(tmp_path / "trials.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["config.passes"] for row in rows] == [trial["config"]["passes"] for trial in trials(results)]
    assert [row["result.status"] for row in rows].count("compile_error") == 1


def test_optuna_opens_the_study_and_goes_on(results: Path, tmp_path: Path) -> None:
    journal = tmp_path / "study.log"
    report(results, "--optuna-journal", str(journal), "--study-name", "vecadd")
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(journal)))
    study = optuna.load_study(study_name="vecadd", storage=storage)
    states = [trial.state.name for trial in study.trials]
    assert sorted(states) == ["COMPLETE", "COMPLETE", "COMPLETE", "FAIL"]
    for ours, theirs in zip(trials(results), study.trials):
        assert theirs.params["passes"] == ours["config"]["passes"]
        assert theirs.value == ours["metric"]
        assert theirs.user_attrs["status"] == ours["result"]["status"]
        assert theirs.datetime_start <= theirs.datetime_complete
    # The study knows the trials only; what a confirmation measured later is the session's.
    assert study.best_value == min(trial["metric"] for trial in trials(results) if trial["metric"] is not None)
    choices = study.trials[0].distributions["passes"].choices
    study.optimize(lambda trial: len(trial.suggest_categorical("passes", choices)), n_trials=2)
    assert len(optuna.load_study(study_name="vecadd", storage=storage).trials) == 6
