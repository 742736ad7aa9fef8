"""Every example runs as it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DEVICE, ROOT, llvmlite_of_today

EXAMPLES = ROOT / "python" / "examples"


def run(script: Path, database: Path, record_id: str, *arguments: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(script), "--record-db", str(database), "--record-id", record_id, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "MNEME_DEVICE": DEVICE},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_exhaustive_example_of_the_existing_mneme(database: Path, record_id: str, tmp_path: Path) -> None:
    output = run(EXAMPLES / "tuning_vecadd_exhaustive.py", database, record_id, folder=tmp_path)
    lines = output.splitlines()
    assert lines[0] == "Baseline configuration:"
    assert sum(line.startswith("[") for line in lines) == 80
    assert lines[-1].startswith("BEST: passes=default<")


@pytest.mark.parametrize("name", ["tuning_tpe", "tuning_nsga2", "tuning_hypercube"])
def test_optuna_examples(name: str, database: Path, record_id: str, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    output = run(EXAMPLES / f"{name}.py", database, record_id, "--device", DEVICE, "--trials", "12", folder=tmp_path)
    assert "µs" in output or "speedup" in output


def test_the_example_of_futures(database: Path, record_id: str, tmp_path: Path) -> None:
    assert "best:" in run(EXAMPLES / "tuning_futures.py", database, record_id, "--device", DEVICE, folder=tmp_path)


def test_the_example_of_a_transformation(database: Path, record_id: str, tmp_path: Path) -> None:
    llvmlite_of_today()
    output = run(EXAMPLES / "own_transformation.py", database, record_id, "--device", DEVICE, folder=tmp_path)
    assert "transformed: verified" in output
    assert "with a mistake: failed_verification" in output
    assert "elements differ" in output
