"""Judges proposed changes to a recorded kernel: the Python side of ``mneme evaluate`` (docs/reference/evaluate.md).

>>> import mneme
>>> verdicts = mneme.evaluate("recording", [mneme.Candidate(source=text)], kernel="stencil")      # doctest: +SKIP
>>> print(verdicts[0].verdict, verdicts[0].speedup, verdicts[0].feedback)                          # doctest: +SKIP
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import uuid
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Optional, Union

from mneme.engine import PathLike, encoded, find_program, stop, write_requests
from mneme.errors import EngineError, RequestError

SCHEMA = 1
"""Version of the lines that this package reads."""

Verdict = Literal["faster", "slower", "inconclusive", "incorrect", "unproven", "invalid"]


@dataclass(frozen=True)
class Candidate:
    """A change to a recorded kernel. At most one of ``source``, ``diff``, ``blocks``, ``ir`` and ``ptx`` may be given.

    ``diff`` (a unified diff), ``blocks`` (SEARCH/REPLACE) and ``options`` without code change the source that the
    evaluator has as ``source_base``. Without an ``id``, the evaluator makes up a random one.
    """

    source: Optional[str] = None
    diff: Optional[str] = None
    blocks: Optional[str] = None
    ir: Optional[str] = None
    ptx: Optional[str] = None
    config: Mapping[str, Any] = field(default_factory=dict)
    options: Sequence[str] = ()
    id: Optional[str] = None


@dataclass(frozen=True)
class Speedup:
    """The ratio of the application's time to the candidate's, with its confidence interval."""

    estimate: float
    low: float
    high: float
    confidence: float
    rounds: int


@dataclass(frozen=True)
class Floor:
    """The time (ns) in which the device copies as much memory or computes as much as the application's own code has to.

    ``bound`` says which of the two takes longer, and ``share`` is the floor as a part of the candidate's time.
    """

    bytes: int
    bytes_per_s: float
    time: float
    share: float
    flops: Optional[int] = None
    flops_per_s: Optional[float] = None
    bound: Literal["memory", "arithmetic"] = "memory"


@dataclass(frozen=True)
class Judgement:
    """What a candidate is worth. ``extra`` has all fields of the line (docs/reference/evaluate.md); times are in ns."""

    id: Optional[str]
    verdict: Verdict
    feedback: str
    speedup: Optional[Speedup]
    exec_time: Optional[float]
    baseline_time: Optional[float]
    floor: Optional[Floor]
    extra: dict[str, Any]

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> Judgement:
        speedup, floor = line.get("speedup"), line.get("floor")
        return cls(
            id=None if line.get("id") is None else str(line["id"]),
            verdict=line["verdict"],
            feedback=line["feedback"],
            speedup=None if speedup is None else Speedup(**{name: speedup[name] for name in Speedup.__annotations__}),
            exec_time=line.get("exec_time"),
            baseline_time=line.get("baseline_time"),
            floor=None if floor is None else Floor(**{it: floor[it] for it in Floor.__annotations__ if it in floor}),
            extra=dict(line),
        )


class Evaluator:
    """A running ``mneme evaluate``: it keeps the recording on the device, and judges one candidate after the other.

    All methods may be called from any thread. Use it as a context manager, or call :meth:`close`. With ``resume`` it
    goes on in ``results_dir``, and candidates whose ``id`` has a verdict there are not judged again. ``options`` are
    further options of ``mneme evaluate``.
    """

    def __init__(
        self,
        recording: PathLike,
        *,
        kernel: Optional[str] = None,
        record_id: Optional[str] = None,
        source_base: Optional[PathLike] = None,
        source_flags: Sequence[str] = (),
        results_dir: Optional[PathLike] = None,
        resume: bool = False,
        device: Optional[Union[str, int]] = None,
        options: Sequence[str] = (),
        program: Optional[PathLike] = None,
    ) -> None:
        command = [str(program or find_program("mneme-tune")), "evaluate", "--record-database", os.fspath(recording)]
        named = {"--kernel": kernel, "--record-id": record_id, "--source-base": source_base, "--device": device}
        command += [word for name, value in named.items() if value is not None for word in (name, str(value))]
        command += [f"--source-flag={flag}" for flag in source_flags]
        self._folder = tempfile.TemporaryDirectory(prefix="mneme-") if results_dir is None else None
        command += ["--results-dir", self._folder.name if self._folder else os.fspath(results_dir or "")]
        if resume and "--resume" not in options:
            command.append("--resume")
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  read when the program has failed
        self._lock = threading.Lock()
        self._pending: dict[str, concurrent.futures.Future[Judgement]] = {}
        self._failure: Optional[EngineError] = None
        # A new process group, so that Ctrl-C at the terminal reaches only this process.
        self.process = subprocess.Popen(
            [*command, *options, "--candidates", "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,
        )
        self._requests: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()
        self._stop = weakref.finalize(self, stop, self.process, self._requests)
        writer = threading.Thread(
            target=write_requests, args=(self._requests, self.process.stdin), daemon=True, name="mneme-candidates"
        )
        self._reader = threading.Thread(
            target=_read, args=(weakref.ref(self), self.process.stdout), daemon=True, name="mneme-verdicts"
        )
        writer.start()
        self._reader.start()

    def submit(self, candidate: Union[Candidate, str]) -> concurrent.futures.Future[Judgement]:
        """Queues a candidate, or a source as text, and returns at once."""
        if isinstance(candidate, str):
            candidate = Candidate(source=candidate)
        future: concurrent.futures.Future[Judgement] = concurrent.futures.Future()
        with self._lock:
            if self._failure is not None:
                raise self._failure
            # Numbers would come again when an evaluation is resumed.
            name = uuid.uuid4().hex if candidate.id is None else str(candidate.id)
            if name in self._pending:
                raise RequestError(f"a candidate {name} has no verdict yet; give this one another id")
            line = {field: value for field, value in vars(candidate).items() if value}
            request = encoded({**line, "id": name})
            self._pending[name] = future
            self._requests.put(request)
        return future

    def evaluate(self, candidate: Union[Candidate, str]) -> Judgement:
        """Judges a candidate, or a source as text, and waits for the verdict."""
        return self.submit(candidate).result()

    async def evaluate_async(self, candidate: Union[Candidate, str]) -> Judgement:
        """The same for ``await``."""
        return await asyncio.wrap_future(self.submit(candidate))

    def _handle(self, line: Mapping[str, Any]) -> None:
        if line["schema"] > SCHEMA:
            raise ValueError(f"its verdicts have version {line['schema']}, this package reads {SCHEMA}")
        judgement = Judgement.from_dict(line)
        if judgement.id is None:
            raise ValueError(judgement.feedback)
        with self._lock:
            future = self._pending.pop(judgement.id, None)
        if future is not None and future.set_running_or_notify_cancel():
            future.set_result(judgement)

    def _ended(self, reason: Optional[str] = None) -> None:
        status = self.process.wait()
        if reason is None:
            self._stderr.seek(0)
            said = [line for line in self._stderr.read().decode(errors="replace").splitlines() if line.strip()]
            how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
            reason = f"mneme evaluate {how}" + (f": {said[-1]}" if said else "")
        with self._lock:
            self._failure = EngineError(reason, status)
            lost = list(self._pending.values())
            self._pending.clear()
        for future in lost:
            if future.set_running_or_notify_cancel():
                future.set_exception(self._failure)

    def close(self, cancel: bool = False) -> None:
        """Waits for the verdicts on what was submitted, or cancels it, and ends the process. May be called twice."""
        self._requests.put(None)
        if cancel:
            self.process.kill()
        self._reader.join()
        self._stop()
        self._stderr.close()
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.close(cancel=kind is not None)


def _read(evaluator: weakref.ref[Evaluator], output: Any) -> None:
    reason = None
    for line in output:
        owner = evaluator()
        if owner is None:
            return
        try:
            owner._handle(json.loads(line))
        except Exception as error:
            reason = f"mneme evaluate said what is no verdict: {error!r}"
            owner.process.kill()
            break
        del owner
    owner = evaluator()
    if owner is not None:
        owner._ended(reason)


def evaluate(recording: PathLike, candidates: Iterable[Union[Candidate, str]], **how: Any) -> list[Judgement]:
    """Judges candidates, or sources as text, and returns their verdicts in the same order.

    ``how`` is what :class:`Evaluator` takes. For candidates that come one after the other, keep an evaluator.
    """
    with Evaluator(recording, **how) as evaluator:
        return [future.result() for future in [evaluator.submit(candidate) for candidate in candidates]]


async def evaluate_async(
    recording: PathLike, candidates: Iterable[Union[Candidate, str]], **how: Any
) -> list[Judgement]:
    """The same for ``await``. A cancelled task ends its evaluation."""
    evaluator = Evaluator(recording, **how)
    try:
        verdicts = await asyncio.gather(*(evaluator.evaluate_async(candidate) for candidate in candidates))
    except BaseException:
        evaluator.close(cancel=True)
        raise
    await asyncio.to_thread(evaluator.close)
    return list(verdicts)
