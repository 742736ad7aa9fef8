"""What goes wrong between the package and the engine is an exception, never a wait without an end."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from conftest import DEVICE, ROOT

from mneme import AsyncReplayExecutor
from mneme.engine import LONGEST_REQUEST, Engine
from mneme.errors import EngineError

HELLO = '{"type":"hello","protocol":2,"recorded":{}}'


def stand_in(folder: Path, *lines: str) -> Path:
    """A program that says these lines, whatever it is asked, and goes on reading."""
    program = folder / "engine"
    said = "".join(f"printf '%s\\n' '{line}'\n" for line in lines)
    program.write_text(f"#!/bin/sh\n{said}cat >/dev/null\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("seconds", [math.nan, math.inf])
def test_numbers_that_json_has_not_are_refused(executor: AsyncReplayExecutor, seconds: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        executor.submit({"timeout_s": seconds})
    with pytest.raises(TypeError, match="plain data"):
        executor.submit({"passes": object()})
    assert executor.evaluate({}).verified


def test_requests_that_are_too_long_are_refused(executor: AsyncReplayExecutor) -> None:
    with pytest.raises(ValueError, match="longer than the engine reads"):
        executor.submit({}, ir="; " + "x" * LONGEST_REQUEST)
    assert executor.evaluate({}).verified


def test_what_is_no_reply_fails_what_waits(tmp_path: Path) -> None:
    engine = Engine("recording.json", program=stand_in(tmp_path, HELLO, "a kernel prints this"))
    with pytest.raises(EngineError, match="a kernel prints this"):
        engine.submit({}).result(timeout=20)
    engine.kill()
    with pytest.raises(EngineError, match="no protocol"):
        Engine("recording.json", program=stand_in(tmp_path, "hello there"))


def test_an_error_of_no_request_fails_what_waits(tmp_path: Path) -> None:
    engine = Engine(
        "recording.json", program=stand_in(tmp_path, HELLO, '{"type":"error","error":"line 1 is no request"}')
    )
    with pytest.raises(EngineError, match="line 1 is no request"):
        engine.submit({}).result(timeout=20)
    engine.kill()


def test_wrong_options_are_said(database: Path) -> None:
    with pytest.raises(EngineError, match="foo"):
        AsyncReplayExecutor(database, device="foo")


def test_an_interruption_that_is_caught_leaves_the_engine_alive(database: Path, record_id: str) -> None:
    script = """
        import sys, time, mneme
        with mneme.AsyncReplayExecutor(*sys.argv[1:3], device=sys.argv[3]) as executor:
            assert executor.evaluate({}).verified
            try:
                print("ready", flush=True)
                time.sleep(60)
            except KeyboardInterrupt:
                assert executor.evaluate({"passes": "default<O1>"}).verified
        print("done")
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(database), record_id, DEVICE]
    program = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, start_new_session=True)
    assert program.stdout is not None
    assert program.stdout.readline() == b"ready\n"
    os.killpg(program.pid, signal.SIGINT)  # As a terminal does.
    assert program.communicate(timeout=60)[0] == b"done\n"
    assert program.returncode == 0


def test_a_process_that_was_forked_keeps_no_engine_alive(database: Path, record_id: str) -> None:
    executor = AsyncReplayExecutor(database, record_id, device=DEVICE)
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    try:
        future = executor.submit({"passes": "default<O1>"})
        start = time.monotonic()
        executor.shutdown()
        assert future.result().verified
        assert time.monotonic() - start < 30
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
