"""The package is built from a checkout that stays as it is."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT


def test_building_leaves_the_checkout_alone(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    source = tmp_path / "python"
    shutil.copytree(ROOT / "python", source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".*"))
    before = sorted(source.rglob("*"))
    build = "import build_in_copy; print(build_in_copy.build_wheel('../wheels'))"
    (tmp_path / "wheels").mkdir()
    done = subprocess.run([sys.executable, "-B", "-c", build], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "wheels").iterdir()
    assert "mneme/tuning/search_space.py" in zipfile.ZipFile(wheel).namelist()
    assert sorted(source.rglob("*")) == before
