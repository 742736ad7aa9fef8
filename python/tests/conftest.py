"""Records a real program once, for all tests.

MNEME_TEST_DEVICE   cpu (default) or cuda
MNEME_TEST_APPS     folder of compiled test programs; without it vecadd is compiled with mneme-cc
MNEME_HOME          installation to test; without it the programs of target/debug
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mneme import AsyncReplayExecutor, RecordedExecution
from mneme.ir import LLVM

# What a shell starts in the background is told to ignore SIGINT, and so is all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[2]
DEVICE = os.environ.get("MNEME_TEST_DEVICE", "cpu")
ELEMENTS = 20_000
"""vecadd takes them in units of 10,000."""

if "MNEME_HOME" not in os.environ:
    os.environ["PATH"] = f"{ROOT / 'target' / 'debug'}:{os.environ['PATH']}"
else:
    os.environ["PATH"] = f"{os.environ['MNEME_HOME']}/bin:{os.environ['PATH']}"


def llvmlite_of_today() -> None:
    """Skips a test where llvmlite is missing, or of an LLVM that cannot read the recorded IR (its releases for Python
    3.9 are).
    """
    binding = pytest.importorskip("llvmlite.binding")
    if binding.llvm_version_info[0] < LLVM:
        pytest.skip("this llvmlite cannot read IR of today")


def compiled(folder: Path, name: str, sources: Path = ROOT / "tests" / "apps", *more: str) -> Path:
    apps = os.environ.get("MNEME_TEST_APPS")
    if apps and sources.name == "apps":
        return Path(apps) / "shared" / name
    program = folder / name
    script = (
        "source scripts/env.sh; mapfile -t flags < <(cuda_flags; cudart_flags shared); "
        'exec mneme-cc clang++-19 "$1" -o "$2" "${flags[@]}" "${@:3}"'
    )
    subprocess.run(
        ["bash", "-c", script, "compile", str(sources / f"{name}.cu"), str(program), *more], cwd=ROOT, check=True
    )
    return program


def record(folder: Path, name: str, *arguments: str) -> Path:
    program = compiled(folder, name)
    database = folder / "recording"
    subprocess.run(
        ["mneme", "record", "-rdb", str(database), "--device", DEVICE, "--", str(program), *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return next(path for path in sorted(database.glob("*.json")) if path.stem.isdigit())


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The vecadd kernel: c[i] = a[i] + b[i]."""
    return record(tmp_path_factory.mktemp("vecadd"), "vecadd", str(ELEMENTS // 10_000))


@pytest.fixture(scope="session")
def recording(database: Path) -> RecordedExecution:
    return RecordedExecution.from_json(database)


@pytest.fixture(scope="session")
def record_id(recording: RecordedExecution) -> str:
    return next(iter(recording))


@pytest.fixture
def executor(database: Path, record_id: str) -> Iterator[AsyncReplayExecutor]:
    with AsyncReplayExecutor(database, record_id, iterations=2, warmup=1, device=DEVICE) as executor:
        yield executor
