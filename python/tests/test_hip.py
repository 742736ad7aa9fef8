"""A recording of a HIP program, which the CPU device replays: the package asks nothing of it that it does not ask of
others.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import DEVICE, ROOT

from mneme import AsyncReplayExecutor, RecordedExecution

HEADERS = [Path("/usr/include/hip/hip_runtime.h"), Path("/opt/rocm/include/hip/hip_runtime.h")]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """vecadd as a HIP program for gfx90a."""
    if DEVICE != "cpu" or "MNEME_TEST_APPS" in os.environ:
        pytest.skip("HIP programs are compiled here, and recorded on the CPU device")
    if not any(header.is_file() for header in HEADERS):
        assert "MNEME_TEST_HIP" not in os.environ, "HIP is not installed: scripts/setup --hip"
        pytest.skip("HIP is not installed (scripts/setup --hip)")
    folder = tmp_path_factory.mktemp("hip")
    options = [
        "-x",
        "hip",
        "--offload-arch=gfx90a",
        "-O3",
        "-Wno-unused-result",
        "-include",
        "tests/apps/hip/cuda_runtime.h",
    ]
    program, recording = folder / "vecadd", folder / "recording"
    clang = os.environ.get("MNEME_TEST_HIP_CLANG", "clang++-19")
    compiled = subprocess.run(
        ["mneme-cc", clang, *options, "tests/apps/vecadd.cu", "-o", str(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if "cannot find ROCm device library" in compiled.stderr and "MNEME_TEST_HIP" not in os.environ:
        pytest.skip(f"HIP's device libraries here are not for {clang}")
    assert compiled.returncode == 0, compiled.stderr
    record = ["mneme", "record", "-rdb", str(recording), "--device", DEVICE, "--", str(program), "2"]
    subprocess.run(record, check=True, stdout=subprocess.DEVNULL)
    return next(path for path in sorted(recording.glob("*.json")) if path.stem.isdigit())


def test_it_is_replayed(database: Path) -> None:
    recorded = RecordedExecution.from_json(database)
    for record_id in recorded:
        with AsyncReplayExecutor(database, record_id, iterations=2, warmup=1, device=DEVICE) as executor:
            configs = [{"passes": f"default<O{level}>", "specialize": True} for level in "0123sz"]
            assert all(result.verified for result in executor.map(configs))
            result = executor.evaluate({"shared_mem": (64 << 10) + 1})
            assert result.status == "invalid_launch"
            assert "bytes of shared memory and the device has 65536" in result.error


def test_it_is_tuned(database: Path, tmp_path: Path) -> None:
    record_id = next(iter(RecordedExecution.from_json(database)))
    space = tmp_path / "space.py"
    space.write_text(
        "from mneme import ExperimentConfiguration\n"
        "from mneme.tuning.search_space import CategoricalParam, IntRangeParam, SearchSpace\n"
        "class Space(SearchSpace):\n"
        "    def __init__(self, recorded):\n"
        "        self.recorded = recorded\n"
        "    def dimensions(self):\n"
        "        return {'x': IntRangeParam('x', 512, 2048, 512), 'passes': CategoricalParam('passes', "
        "['default<O3>'])}\n"
        "    def constraints(self, params):\n"
        "        return True\n"
        "    def derived(self, params):\n"
        "        config = self.baseline().to_dict()\n"
        "        return ExperimentConfiguration.from_dict({**config, 'block': {'x': params['x']}, 'passes': "
        "params['passes']})\n"
        "    def baseline(self):\n"
        "        return self.recorded.configuration()\n"
    )
    results = tmp_path / "results"
    tune = [
        "mneme-tune",
        "-rdb",
        str(database),
        "-rid",
        record_id,
        "--device",
        DEVICE,
        "--space-module",
        f"{space}:Space",
    ]
    options = ["--sampler", "exhaustive", "--iterations", "2", "--warmup", "1", "--finalists", "0", "--quiet"]
    subprocess.run([*tune, *options, "--results-dir", str(results)], check=True, stdout=subprocess.DEVNULL)
    summary = json.loads((results / "summary.json").read_text())
    # No block of an AMD GPU has 1536 or 2048 threads.
    assert (summary["num_trials_completed"], summary["num_rejected"]) == (2, 2), summary
    assert summary["num_verified"] == 2
