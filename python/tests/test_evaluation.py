"""mneme.evaluate: candidates of a recorded kernel and their verdicts."""

import asyncio
import dataclasses
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Union

import pytest
from conftest import DEVICE

import mneme
from mneme import Candidate, EngineError, Evaluator, RequestError
from mneme.evaluation import Judgement
from mneme.openevolve import evaluator, score

KERNEL = "template <typename T> __global__ void vecadd(T *out, const T *in, size_t n) {{ {} }}\n{}"
INSTANCE = "template __global__ void vecadd(long *, const long *, size_t);"
WRONG = Candidate(source=KERNEL.format("if (threadIdx.x < n) out[threadIdx.x] = 0;", INSTANCE))
SAME = Candidate(config={"original": True})
BROKEN = "this is no source"
RIGHT = KERNEL.format(
    "for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += gridDim.x * size_t(blockDim.x)) "
    "out[i] += in[i];",
    INSTANCE,
)


def test_candidates_have_verdicts_in_their_order(database: Path) -> None:
    found = mneme.evaluate(database, [WRONG, BROKEN, SAME], device=DEVICE)
    assert [judgement.verdict for judgement in found] == ["incorrect", "invalid", "inconclusive"]
    wrong, broken, same = found
    assert wrong.extra["first_wrong"]["expected"] != wrong.extra["first_wrong"]["got"]
    assert broken.extra["compiler"]["line"] == 1 and "line 1" in broken.feedback
    assert same.speedup is not None and same.speedup.estimate == 1
    assert [score(judgement) for judgement in found] == [0, 0, 1]


def test_an_evaluator_answers_one_after_the_other_and_in_an_event_loop(database: Path, tmp_path: Path) -> None:
    with Evaluator(database, device=DEVICE, results_dir=tmp_path / "results") as running:
        assert running.evaluate(WRONG).verdict == "incorrect"

        async def both() -> list[Judgement]:
            named = [Candidate(id=name, source=WRONG.source) for name in ("a", "b")]
            return list(await asyncio.gather(*(running.evaluate_async(candidate) for candidate in named)))

        assert [(it.id, it.verdict) for it in asyncio.run(both())] == [("a", "incorrect"), ("b", "incorrect")]
        slow = running.submit(Candidate(id="c", source=BROKEN))
        with pytest.raises(RequestError):
            running.submit(Candidate(id="c", source=BROKEN))
        assert slow.result().verdict == "invalid"
    assert len((tmp_path / "results" / "verdicts.jsonl").read_text().splitlines()) == 4
    assert asyncio.run(mneme.evaluate_async(database, [WRONG], device=DEVICE))[0].verdict == "incorrect"


def test_nvrtc_compiles_sources_as_confined_as_clang(database: Path, tmp_path: Path) -> None:
    nvrtc = pytest.importorskip("nvidia.cuda_nvrtc")
    library = Path(nvrtc.__path__[0]) / "lib" / "libnvrtc.so.12"
    stranger = tmp_path / "stranger.h"
    stranger.write_text("#error secret")
    candidates: list[Union[Candidate, str]] = [
        Candidate(source=RIGHT, options=["-std=c++17", "-ffp-contract=off"]),
        WRONG,
        BROKEN,
        Candidate(source=f'#include "{stranger}"\n{RIGHT}'),
        Candidate(source=RIGHT, options=["-fassociative-math"]),
    ]
    right, *rest = mneme.evaluate(database, candidates, device=DEVICE, options=["--nvrtc", str(library)])
    assert right.verdict in ("faster", "slower", "inconclusive"), right.feedback
    assert [it.verdict for it in rest] == ["incorrect", "invalid", "invalid", "invalid"]
    assert rest[1].extra["compiler"]["line"] == 1
    assert "secret" not in rest[2].feedback and "stranger.h" in rest[2].feedback


def test_an_evaluation_that_cannot_begin_says_why(database: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="nonesuch") as error:
        mneme.evaluate(database, [WRONG], kernel="nonesuch", device=DEVICE)
    assert error.value.status == 64
    with Evaluator(database, device=DEVICE) as running:
        future = running.submit(WRONG)
        running.process.kill()
        with pytest.raises(EngineError, match="SIGKILL"):
            future.result()
        with pytest.raises(EngineError):
            running.submit(WRONG)


SLOW = """
template <int N, int M> struct F { static constexpr long v = F<N - 1, 2 * M>::v + F<N - 1, 2 * M + 1>::v; };
template <int M> struct F<0, M> { static constexpr long v = 1; };
long q = F<24, 1>::v;
"""


def with_word(word: str) -> list[str]:
    """Commands of processes with this word."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_text().replace("\0", " ") if entry.name.isdigit() else ""
        except OSError:
            continue
        found += [words] if word in words else []
    return found


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_evaluation_ends_while_a_source_compiles(database: Path, tmp_path: Path) -> None:
    def is_compiling() -> bool:
        return any("clang" in words for words in with_word(str(tmp_path)))

    with Evaluator(database, device=DEVICE, results_dir=tmp_path / "one") as running:
        future = running.submit(SLOW)
        wait_until(is_compiling)
        start = time.monotonic()
        running.process.terminate()
        with pytest.raises(EngineError) as error:
            future.result()
        assert error.value.status == 143 and time.monotonic() - start < 5
    code = (
        f"import mneme; mneme.evaluate({str(database)!r}, [{SLOW!r}], device={DEVICE!r}, results_dir={str(tmp_path)!r})"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as child:
        wait_until(is_compiling)
        child.kill()
    start = time.monotonic()
    wait_until(lambda: not with_word(str(tmp_path)))
    assert time.monotonic() - start < 5


def test_text_that_is_no_unicode_is_refused(database: Path) -> None:
    with Evaluator(database, device=DEVICE) as running:
        with pytest.raises(ValueError, match="surrogate"):
            running.submit(Candidate(source="// \ud800\n" + RIGHT))
        deep: list[object] = []
        for _ in range(200):
            deep = [deep]
        with pytest.raises(EngineError):
            running.submit(Candidate(config={"passes": deep})).result(timeout=60)


def test_an_evaluation_is_resumed_also_after_its_process_died(database: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    sources = [f"{BROKEN} {number}" for number in range(2)]
    for source in sources:
        with Evaluator(database, device=DEVICE, results_dir=results, resume=True) as running:
            found = running.evaluate(source)
            assert "compile" in found.feedback
            again = [running.evaluate(Candidate(id="named", source=BROKEN)) for _ in range(2)]
            assert again[0].extra == again[1].extra
    assert len((results / "verdicts.jsonl").read_text().splitlines()) == 3
    program = tmp_path / "program.cu"
    program.write_text(BROKEN)
    started: list[Evaluator] = []

    class Noted(Evaluator):
        def __init__(self, *arguments: Any, **how: Any) -> None:
            super().__init__(*arguments, **how)
            started.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mneme.openevolve.Evaluator", Noted)
        evaluate = evaluator(database, device=DEVICE, results_dir=tmp_path / "search")
        for _ in range(2):
            evaluate(program)
            started[-1].process.kill()
            started[-1].process.wait()
    assert len(started) == 2
    assert len((tmp_path / "search" / "verdicts.jsonl").read_text().splitlines()) == 2


def test_a_search_gets_the_low_end_of_the_interval(database: Path, tmp_path: Path) -> None:
    line = {"schema": 1, "id": "1", "verdict": "faster", "feedback": "", "exec_time": 5000.0}
    speedup = {"estimate": 1.5, "low": 1.4, "high": 1.6, "confidence": 0.95, "rounds": 6}
    older: dict[str, Any] = {"bytes": 64, "bytes_per_s": 6.4e7, "time": 1000.0, "share": 0.2}
    floor = mneme.Floor(**older, flops=10, flops_per_s=1e7, bound="arithmetic")
    assert Judgement.from_dict({**line, "floor": dataclasses.asdict(floor)}).floor == floor
    assert Judgement.from_dict({**line, "floor": older}).floor == mneme.Floor(**older)
    for verdict, expected in {"faster": 1.4, "inconclusive": 1, "slower": 1, "unproven": 0}.items():
        assert score(Judgement.from_dict({**line, "speedup": speedup, "verdict": verdict})) == expected
    program = tmp_path / "program.cu"
    program.write_text(BROKEN)
    evaluate = evaluator(database, device=DEVICE)
    found = [evaluate(program), evaluate(program)]
    for it in found:
        metrics = it if isinstance(it, dict) else {**it.metrics, **it.artifacts}
        assert metrics["combined_score"] == 0 and metrics["verdict"] == "invalid" and "line 1" in metrics["feedback"]
