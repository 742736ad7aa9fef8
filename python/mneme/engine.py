"""A running ``mneme-replay serve``: finds the program, speaks its protocol (docs/reference/protocol.md), knows when it
has died.
"""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, Union

from mneme.errors import Cancelled, EngineError, EngineNotFound, RequestError
from mneme.futures import EvalFuture
from mneme.ir import to_text
from mneme.mneme_types import Configuration, ExperimentConfiguration, ExperimentResult, plain, with_shapes

PROTOCOL = 2
"""Version of the protocol that this package speaks."""

LONGEST_REQUEST = 64 << 20
"""Bytes of a line that the engine reads (docs/reference/protocol.md)."""

PathLike = Union[str, "os.PathLike[str]"]


def find_program(name: str = "mneme-replay") -> str:
    """Path of one of the project's programs: in ``MNEME_HOME/bin``, inside the wheel, on ``PATH``; in this order."""
    home = os.environ.get("MNEME_HOME")
    folders = [Path(home) / "bin"] if home else []
    folders.append(Path(__file__).parent / "native" / "bin")
    for folder in folders:
        program = folder / name
        if os.access(program, os.X_OK):
            return str(program)
    if home:
        raise EngineNotFound(f"MNEME_HOME is {home}, but there is no {name} in its bin folder")
    found = shutil.which(name)
    if found is None:
        raise EngineNotFound(
            f"{name} is not on PATH; install it (scripts/install) and put it there, or set MNEME_HOME to its folder"
        )
    return found


def code_message(ir: Any = None, ptx: Any = None, cubin: Optional[PathLike] = None) -> Optional[dict[str, str]]:
    """The ``code`` of a submission. ``ir`` is a path, text, bitcode, or an llvmlite module."""
    if sum(given is not None for given in (ir, ptx, cubin)) > 1:
        raise ValueError("a configuration takes one of ir, ptx and cubin")
    if isinstance(ir, (bytes, bytearray)):
        return {"bitcode": base64.b64encode(ir).decode()}
    if isinstance(ir, os.PathLike):
        return {"ir-file": str(Path(ir).absolute())}
    if isinstance(ir, str):
        return {"ir-text": ir}
    if ir is not None:
        return {"ir-text": to_text(ir)}
    if isinstance(ptx, os.PathLike):
        return {"ptx-file": str(Path(ptx).absolute())}
    if ptx is not None:
        return {"ptx-text": str(ptx)}
    if cubin is not None:
        return {"cubin-file": str(Path(cubin).absolute())}
    return None


class Engine:
    """One ``mneme-replay serve`` and the futures of what it was asked.

    All methods may be called from any thread. Use it as a context manager, or call :meth:`close`; an engine that is
    forgotten ends when its object does, and at the interpreter's exit.
    """

    def __init__(
        self,
        record_db: PathLike,
        record_id: Optional[str] = None,
        options: Sequence[str] = (),
        program: Optional[PathLike] = None,
    ) -> None:
        command = [str(program or find_program()), "serve", "--record-db", str(record_db)]
        if record_id is not None:
            command += ["--record-id", str(record_id)]
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  read when the engine has failed
        self._lock = threading.Lock()
        self._pending: dict[int, EvalFuture] = {}
        self._questions: list[tuple[str, EvalFuture]] = []
        self._next = 0
        self._failure: Optional[EngineError] = None
        self._closing = False
        # In a process group of its own, so that an interruption at the terminal is this process' to answer.
        self.process = subprocess.Popen(
            [*command, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self._output = self.process.stdout
        self._requests: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()
        self._stop = weakref.finalize(self, stop, self.process, self._requests)
        try:
            hello = self._read()
        except ValueError as error:
            self._stop()
            raise EngineError(f"{command[0]} speaks no protocol of this package: {error}") from None
        if hello is None:
            raise self._died()
        if hello.get("type") == "fatal":
            self.process.wait()
            raise EngineError(hello["error"], hello["status"])
        self.hello: dict[str, Any] = hello
        if int(hello["protocol"]) > PROTOCOL:
            self._stop()
            raise EngineError(
                f"mneme-replay speaks version {hello['protocol']} of the protocol, this package version "
                f"{PROTOCOL}; update the package"
            )
        # The threads must not keep a forgotten engine alive. Requests have one of their own: whoever waited until the
        # engine reads them could be the one that has to read its replies.
        writer = threading.Thread(
            target=write_requests, args=(self._requests, self.process.stdin), daemon=True, name="mneme-requests"
        )
        self._reader = threading.Thread(
            target=_read_replies, args=(weakref.ref(self), self._output), daemon=True, name="mneme-replies"
        )
        writer.start()
        self._reader.start()

    # Requests

    def submit(
        self,
        config: Configuration,
        *,
        iterations: Optional[int] = None,
        warmup: Optional[int] = None,
        priority: int = 0,
        code: Optional[Mapping[str, str]] = None,
        outputs: Optional[Mapping[str, str]] = None,
    ) -> EvalFuture:
        """Queues one configuration."""
        if isinstance(config, ExperimentConfiguration):
            # Values that do not apply may be anything.
            fields: Mapping[str, Any] = config.grounded().to_dict()
        else:
            fields = with_shapes(config, self.hello["recorded"])
            config = ExperimentConfiguration.from_dict({**self.hello["recorded"], **fields})
        message: dict[str, Any] = {"type": "submit", "config": fields}
        if iterations is not None:
            message["iterations"] = iterations
        if warmup is not None:
            message["warmup"] = warmup
        if priority:
            message["priority"] = priority
        if code:
            message["code"] = dict(code)
        if outputs:
            message["outputs"] = dict(outputs)
        with self._lock:
            self._check()
            message["id"] = self._next
            request = encoded(message)
            self._next += 1
            future = EvalFuture(message["id"], config, self._cancel)
            self._pending[future.job_id] = future
            self._requests.put(request)
        return future

    def ask(self, request: Mapping[str, Any], reply: str, timeout: Optional[float] = None) -> dict[str, Any]:
        """Sends a request that is no submission and waits for the reply of type ``reply``."""
        future = EvalFuture(-1, None)
        encoding = encoded(request)
        with self._lock:
            self._check()
            self._questions.append((reply, future))
            self._requests.put(encoding)
        answer: Any = future.result(timeout)
        if answer is None:
            raise TimeoutError(f"mneme-replay did not answer within {timeout} seconds")
        return dict(answer)

    def statistics(self) -> dict[str, Any]:
        """Counts since the start (docs/reference/protocol.md)."""
        return self.ask({"type": "statistics"}, "statistics")

    def _cancel(self, job_id: int) -> None:
        with self._lock:
            if self._pending.pop(job_id, None) is not None and self._failure is None and not self._closing:
                self._requests.put(encoded({"type": "cancel", "id": job_id}))

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise EngineError("the executor was shut down")

    # Replies

    def _read(self) -> Optional[dict[str, Any]]:
        line = self._output.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def _handle(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "fatal":
            self._fail(EngineError(message["error"], message["status"]))
            return
        with self._lock:
            if kind in ("result", "cancelled") or (kind == "error" and message.get("id") is not None):
                future = self._pending.pop(message["id"], None)
            else:
                at = next((n for n, (wanted, _) in enumerate(self._questions) if kind in (wanted, "error")), None)
                future = None if at is None else self._questions.pop(at)[1]
        if future is None and kind == "error" and message.get("id") is None:
            self._fail(EngineError(f"mneme-replay understood none of a request: {message['error']}"))
        if future is None or not future.set_running_or_notify_cancel():
            return
        if kind == "result":
            result = ExperimentResult.from_dict(message["result"])
            result.config = future.config
            future.set_result(result)
        elif kind == "cancelled":
            future.set_exception(Cancelled("the configuration was cancelled before it ran"))
        elif kind == "error":
            future.set_exception(RequestError(message["error"]))
        else:
            future.set_result(message)

    def _died(self) -> EngineError:
        """What there is to say of a process whose output has ended."""
        try:
            status: Optional[int] = self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            status = None
        self._stderr.seek(0)
        said = [line for line in self._stderr.read().decode(errors="replace").splitlines() if line.strip()]
        if status is None:
            how = "closed its output"
        elif status < 0:
            how = f"was killed by {signal.Signals(-status).name}"
        else:
            how = f"ended with status {status}"
        # Wrong options are an error in the first line, and advice to users of a shell in the last.
        errors = [line for line in said if line.startswith("error:")]
        what = (errors or said[-1:] or [""])[0]
        return EngineError(f"mneme-replay {how}" + (f": {what}" if what else ""), status)

    def _fail(self, failure: EngineError) -> None:
        with self._lock:
            self._failure = self._failure or failure
            lost = [*self._pending.values(), *(future for _, future in self._questions)]
            self._pending.clear()
            self._questions.clear()
        for future in lost:
            if future.set_running_or_notify_cancel():
                future.set_exception(failure)

    # The end

    def close(self, cancel: bool = False) -> None:
        """Waits for what was submitted, or cancels it, and ends the process. May be called twice."""
        with self._lock:
            self._closing = True
            expected = [] if cancel else list(self._pending.values())
        try:
            # A callback of a future runs where replies are read; it cannot wait for them.
            if cancel or not self._is_reader():
                concurrent.futures.wait(expected)
                # The end of its input alone would not reach it while a process forked from this one has the pipe, too.
                self._requests.put(encoded({"type": "shutdown"}))
            self._requests.put(None)
            self.process.wait(timeout=20 if cancel else None)
        except subprocess.TimeoutExpired:
            self.process.kill()
        except BaseException:
            self.kill()
            raise
        if not self._is_reader():
            self._reader.join()
        self._stop()
        self._output.close()
        self._stderr.close()

    def _is_reader(self) -> bool:
        return threading.current_thread() is self._reader

    def kill(self) -> None:
        """Ends the process at once; futures without a result fail."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.close(cancel=kind is not None)


def encoded(message: Mapping[str, Any]) -> bytes:
    """A request as a line. Raises ``ValueError`` for what JSON or the protocol cannot hold, ``TypeError`` for what is
    no data.
    """
    # Not as escapes, because half of a surrogate pair has one that no reader accepts.
    text = json.dumps(message, separators=(",", ":"), default=plain, allow_nan=False, ensure_ascii=False)
    line = text.encode() + b"\n"
    if len(line) > LONGEST_REQUEST:
        raise ValueError(
            f"a request of {len(line)} bytes is longer than the engine reads, {LONGEST_REQUEST}; give files by "
            f"their path"
        )
    return line


def _read_replies(engine: weakref.ref[Engine], output: Any) -> None:
    for line in output:
        owner = engine()
        if owner is None:
            return
        if line.endswith(b"\n"):
            try:
                owner._handle(json.loads(line))
            except Exception as error:
                owner._fail(
                    EngineError(
                        f"mneme-replay said what is no reply ({error!r}): {line[:200].decode(errors='replace').strip()}"
                    )
                )
        del owner
    owner = engine()
    if owner is not None:
        owner._fail(
            EngineError("the executor was shut down") if owner._closing and not owner._pending else owner._died()
        )


def write_requests(requests: queue.SimpleQueue[Optional[bytes]], to: Any) -> None:
    # An engine that is gone is told of by the other thread.
    with contextlib.suppress(OSError, ValueError):
        for request in iter(requests.get, None):
            to.write(request)
            if requests.empty():
                to.flush()
    with contextlib.suppress(OSError, ValueError):
        to.close()


def stop(process: subprocess.Popen[bytes], requests: queue.SimpleQueue[Optional[bytes]]) -> None:
    """Ends a process whose engine was forgotten. What it forked ends with it."""
    requests.put(None)
    if process.poll() is None:
        process.kill()
        process.wait()
    if process.stdout is not None:
        with contextlib.suppress(OSError, ValueError):
            process.stdout.close()
