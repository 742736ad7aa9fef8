import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import DEVICE, ROOT

from mneme import (
    AsyncReplayExecutor,
    EngineError,
    EngineNotFound,
    EvalFuture,
    ExperimentConfiguration,
    ExperimentResult,
    RecordedExecution,
    RequestError,
)

PIPELINES = ["default<O1>", "default<O2>", "default<O3>"]


def test_the_baseline_verifies(executor: AsyncReplayExecutor, recording: RecordedExecution, record_id: str) -> None:
    result = executor.evaluate(recording[record_id].configuration())
    assert result.verified, result.error
    assert result.status == "verified"
    assert len(result.exec_time) == 3
    assert len(result.measured) == 2
    assert result.config is not None
    assert result.config.passes == "default<O3>"


def test_runs_are_the_engines_where_nothing_is_said(database: Path, record_id: str) -> None:
    with AsyncReplayExecutor(database, record_id, device=DEVICE) as executor:
        result = executor.evaluate({})
    assert (len(result.exec_time), len(result.measured)) == (5, 3)


def test_futures_complete_in_any_order_and_failures_are_results(executor: AsyncReplayExecutor) -> None:
    good = [executor.submit({"passes": passes}) for passes in PIPELINES]
    bad = executor.submit({"passes": "no-such-pass"})
    assert all(future.result().verified for future in good)
    assert all(future.done() for future in good)
    assert not bad.result().verified
    assert bad.result().status in ("compile_error", "invalid_config")
    assert "no-such-pass" in bad.result().error


def test_map_keeps_the_order_and_async_iteration_works(executor: AsyncReplayExecutor) -> None:
    configs = [{"passes": passes} for passes in PIPELINES]
    assert [result.config.passes for result in executor.map(configs) if result.config] == PIPELINES
    assert {result.config.passes for result in executor.map(configs, ordered=False, window=2) if result.config} == set(
        PIPELINES
    )

    async def collect() -> list[str]:
        return [result.config.passes async for result in executor.map(configs) if result.config]

    assert asyncio.run(collect()) == PIPELINES

    async def one() -> bool:
        return bool((await executor.submit(configs[0])).verified)

    assert asyncio.run(one())


def test_many_submissions_from_everywhere_do_not_lock_up(executor: AsyncReplayExecutor) -> None:
    """Requests and results are far more than pipes hold, and results are submitted again by who is told of them."""
    config = {"passes": PIPELINES[0]}
    assert executor.evaluate(config).verified
    count, again = 4000, []
    futures = [executor.submit({**config, "min_blocks_per_sm": number % 7}) for number in range(count)]
    for future in futures[:1000]:
        future.add_done_callback(lambda done: again.append(executor.submit(config)))
    assert all(future.result(timeout=120).verified for future in futures)
    assert all(future.result(timeout=120).verified for future in again)
    assert len(again) == 1000
    results = list(executor.map((config for _ in range(2000)), ordered=False))
    assert len(results) == 2000


def test_a_submission_costs_little(executor: AsyncReplayExecutor) -> None:
    config = {"passes": PIPELINES[0]}
    assert executor.evaluate(config).verified
    start = time.thread_time()
    futures = [executor.submit(config) for _ in range(1000)]
    assert time.thread_time() - start < 1.0, "a millisecond each"
    start = time.process_time()
    assert all(future.result().verified for future in futures)
    assert time.process_time() - start < 1.0


def test_shapes_are_as_recorded_where_nothing_is_said(executor: AsyncReplayExecutor) -> None:
    recorded = executor.hello["recorded"]
    result = executor.evaluate({"grid": {"x": recorded["grid"]["x"] * 2}, "block": {}})
    assert result.verified
    assert result.config is not None
    assert result.config.grid.to_dict() == {**recorded["grid"], "x": recorded["grid"]["x"] * 2}
    assert result.config.block.to_dict() == recorded["block"]
    assert executor.evaluate({"block": recorded["block"]["x"]}).verified
    assert executor.evaluate({"block": (recorded["block"]["x"], 1)}).verified
    for bad in ("large", {"w": 3}, (1, 2, 3, 4), 2.5):
        with pytest.raises(ValueError, match="is no dim3"):
            executor.submit({"block": bad})


def test_numbers_of_numpy_are_numbers(executor: AsyncReplayExecutor) -> None:
    numpy = pytest.importorskip("numpy")
    config = ExperimentConfiguration(**executor.hello["recorded"])
    config.maxnreg = numpy.int64(64)
    config.facts = numpy.bool_(True)
    assert executor.evaluate(config).verified
    assert config.hash() == ExperimentConfiguration.from_dict({**config.to_dict(), "maxnreg": 64, "facts": True}).hash()


def test_unknown_fields_are_errors_of_the_request(executor: AsyncReplayExecutor) -> None:
    with pytest.raises((ValueError, RequestError), match="pases"):
        executor.evaluate({"pases": "default<O1>"})
    assert executor.evaluate({}).verified


def test_a_cancelled_configuration_has_no_result(executor: AsyncReplayExecutor) -> None:
    # Long enough that the last one is still to come.
    futures = [
        executor.submit({"passes": "default<O3>", "codegen_opt": level, "maxnreg": 32 + level, "iterations": 2000})
        for level in range(4)
    ]
    last = executor.submit({"passes": "default<O1>"}, priority=-1)
    assert last.cancel()
    assert last.cancelled()
    assert all(future.result() is not None for future in futures)
    statistics = executor.statistics()
    assert statistics["submitted"] == 5


def test_results_are_appended_to_the_results_folder(database: Path, record_id: str, tmp_path: Path) -> None:
    with AsyncReplayExecutor(database, record_id, 1, tmp_path / "results", 1, device=DEVICE) as executor:
        executor.evaluate({"passes": "default<O1>"})
    (file,) = (tmp_path / "results").iterdir()
    entry = json.loads(file.read_text())
    assert entry["config"]["passes"] == "default<O1>"
    assert entry["hash"] == ExperimentConfiguration.from_dict(entry["config"]).ground().hash()
    assert entry["result"]["verified"]


def test_arguments_by_position_are_those_of_the_existing_mneme(database: Path, record_id: str, tmp_path: Path) -> None:
    with AsyncReplayExecutor(str(database), record_id, 3, str(tmp_path), 1, 1, 3, device=DEVICE) as executor:
        result = executor.evaluate(ExperimentConfiguration(**executor.hello["recorded"]))
    assert result.verified
    assert (executor.iterations, executor.warmup, len(result.exec_time)) == (3, 1, 4)


def test_values_that_do_not_apply_may_be_anything(executor: AsyncReplayExecutor) -> None:
    config = ExperimentConfiguration(**executor.hello["recorded"])
    # As in an example of the existing Mneme.
    config.max_threads = 0.37  # type: ignore[assignment]
    result = executor.evaluate(config)
    assert result.verified, result.error
    assert result.config is config


def test_ir_that_is_set_counts_for_what_is_submitted_later(executor: AsyncReplayExecutor, tmp_path: Path) -> None:
    before = executor.submit({})
    file = tmp_path / "kernel.bc"
    file.write_bytes(executor.ir())
    for ir in (str(file), file):
        executor.set_ir(ir)
        assert executor.evaluate({}).verified
    executor.set_ir("no IR")
    assert not executor.evaluate({}).verified
    assert executor.evaluate({}, ir=file).verified
    executor.set_ir(None)
    assert executor.evaluate({}).verified
    assert before.result().verified


def test_a_future_may_be_asked_before_it_is_done() -> None:
    future = EvalFuture(1, ExperimentConfiguration())
    assert future.result(timeout=0.01) is None
    assert not future.done()
    future.set_error("lost")
    failed = future.result()
    assert (failed.error, failed.failed, failed.executed) == ("lost", True, False)
    done = EvalFuture(2, ExperimentConfiguration())
    result = ExperimentResult(verified=True)
    done.set_result(result)
    assert done.result(timeout=1) is result
    done.set_error("late")
    with pytest.raises(RuntimeError, match="late"):
        done.result()
    assert result.error == "late"


def test_a_killed_engine_is_an_exception_for_all(database: Path, record_id: str) -> None:
    executor = AsyncReplayExecutor(database, record_id, device=DEVICE)
    waiting = [executor.submit({"maxnreg": 40 + n}) for n in range(8)]
    executor.engine.process.kill()
    for future in waiting:
        with pytest.raises(EngineError, match="SIGKILL"):
            if future.result().verified:  # Done before the signal came.
                raise EngineError("SIGKILL")
    with pytest.raises(EngineError):
        executor.evaluate({})
    executor.shutdown()


def test_what_is_missing_is_named(
    database: Path, record_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EngineError, match="999"):
        AsyncReplayExecutor(database, "999", device=DEVICE)
    with pytest.raises(EngineError, match="missing"):
        AsyncReplayExecutor(tmp_path / "missing.json", record_id)
    monkeypatch.setenv("MNEME_HOME", str(tmp_path))
    with pytest.raises(EngineNotFound, match="MNEME_HOME"):
        AsyncReplayExecutor(database, record_id)


def children_of(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except OSError:
            continue
    return found + [deeper for child in found for deeper in children_of(child)]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interruption_leaves_no_process_behind(database: Path, record_id: str, number: signal.Signals) -> None:
    script = (
        "import sys, mneme\n"
        "executor = mneme.AsyncReplayExecutor(sys.argv[1], sys.argv[2], iterations=3, device=sys.argv[3])\n"
        "futures = [executor.submit({'maxnreg': 16 + n}) for n in range(200)]\n"
        "futures[0].result(); print('ready', flush=True)\n"
        "for future in futures: future.result()\n"
    )
    command = [sys.executable, "-c", script, str(database), record_id, DEVICE]
    program = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, start_new_session=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == b"ready\n"
    started = children_of(program.pid)
    assert started
    if number == signal.SIGINT:
        os.killpg(program.pid, number)  # As a terminal does.
    else:
        program.send_signal(number)
    program.wait(timeout=30)
    deadline = time.monotonic() + 20
    while any(alive(pid) for pid in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in started if alive(pid)]
    program.stdout.close()
