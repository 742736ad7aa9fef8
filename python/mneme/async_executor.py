"""Replays configurations, many at a time, and hands out futures."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
import json
import queue
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Optional, Union

from mneme import private_files
from mneme.engine import Engine, PathLike, code_message
from mneme.futures import EvalFuture
from mneme.memory import Memory, RegionDiff, diff
from mneme.mneme_types import Configuration, ExperimentConfiguration, ExperimentResult, plain


class AsyncReplayExecutor:
    """Replays configurations of one recorded kernel instance.

    Parameters
    ----------
    record_db, record_id
        The ``<static-hash>.json`` of the kernel, and the dynamic hash of the instance (``None`` where there is one
        only).
    iterations, warmup
        Measured runs of a configuration, and runs before them; ``exec_time`` lists both. ``None``: as many as
        ``mneme-replay serve`` makes by itself (its ``--help`` says how many).
    results_db_dir
        Folder to which every result is appended, as a line of ``<static-hash>.<dynamic-hash>.jsonl`` with ``hash``,
        ``config`` and ``result``; ``None`` keeps nothing.
    num_workers
        Configurations that may run at a time, one GPU each; ``None`` leaves it to the engine.
    max_startup_failures
        Without effect, for scripts that were written for the existing Mneme. ``mneme-replay`` replaces executors that
        fail; if the engine does not start, this raises :class:`~mneme.errors.EngineError`.
    device
        ``"cpu"``, ``"cuda"``, ``"hip"``, a GPU's number or a list of them; as recorded by default.
    timeout
        Seconds for a build, and for all runs of a configuration.
    options
        Further options of ``mneme-replay serve``.
    """

    def __init__(
        self,
        record_db: PathLike,
        record_id: Optional[str] = None,
        iterations: Optional[int] = None,
        results_db_dir: Optional[PathLike] = None,
        num_workers: Optional[int] = None,
        warmup: Optional[int] = None,
        max_startup_failures: Optional[int] = None,
        *,
        device: Optional[Union[str, int, Iterable[int]]] = None,
        timeout: Optional[float] = None,
        options: Iterable[str] = (),
    ) -> None:
        self.record_db, self.record_id = str(record_db), record_id
        self.iterations, self.warmup = iterations, warmup
        arguments = list(options)
        if num_workers is not None:
            arguments += ["--workers", str(num_workers)]
        if device is not None:
            named = [device] if isinstance(device, (str, int)) else list(device)
            arguments += ["--device", ",".join(str(each) for each in named)]
        if timeout is not None:
            arguments += ["--timeout", str(timeout)]
        self.engine = Engine(record_db, record_id, arguments)
        self._folder = tempfile.TemporaryDirectory(prefix="mneme-")
        self._outputs = itertools.count(1)
        self._ir: Any = None
        self._log_lock = threading.Lock()
        self._log = None
        if results_db_dir is not None:
            folder = Path(results_db_dir)
            private_files.make_folder(folder)
            instance = record_id if record_id is not None else "instance"
            self._log = private_files.open_text(folder / f"{Path(record_db).stem}.{instance}.jsonl", "a")

    @property
    def hello(self) -> dict[str, Any]:
        """What the engine said of itself, the kernel and the device (docs/reference/protocol.md)."""
        return self.engine.hello

    def set_ir(self, ir: Any) -> None:
        """Replaces the recorded IR for all later submissions without code of their own; ``None`` restores it.

        ``ir`` is what :meth:`submit` takes. A string that ends with ``.ll`` or ``.bc`` is a path too.
        """
        is_path = isinstance(ir, str) and ir.endswith((".ll", ".bc"))
        self._ir = Path(ir) if is_path else ir

    def submit(
        self,
        config: Configuration,
        *,
        priority: int = 0,
        ir: Any = None,
        ptx: Any = None,
        cubin: Optional[PathLike] = None,
        memory: bool = False,
    ) -> EvalFuture:
        """Queues a configuration and returns at once.

        ``ir`` replaces the recorded IR: an llvmlite module, textual IR, bitcode, or the path of a file; ``ptx`` and
        ``cubin`` likewise. With ``memory`` the result has what the kernel left in memory, see :meth:`memory`.
        """
        if ir is None and ptx is None and cubin is None:
            ir = self._ir
        outputs = {}
        if memory:
            outputs["memory"] = str(Path(self._folder.name) / f"memory-{next(self._outputs)}")
        future = self.engine.submit(
            config,
            iterations=self.iterations,
            warmup=self.warmup,
            priority=priority,
            code=code_message(ir, ptx, cubin),
            outputs=outputs,
        )
        future.memory_file = outputs.get("memory")
        if self._log is not None:
            future.add_done_callback(self._record)
        return future

    def evaluate(self, config: Configuration, **how: Any) -> ExperimentResult:
        """Replays a configuration and waits for its result; takes what :meth:`submit` takes."""
        result: ExperimentResult = self.submit(config, **how).result()
        return result

    def map(self, configs: Iterable[Configuration], *, ordered: bool = True, window: int = 1024, **how: Any) -> Results:
        """Replays many configurations. Iterate over what this returns with ``for`` or with ``async for``.

        Results come in the order of ``configs``, or of completion when not ``ordered``; each knows its ``config``. At
        most ``window`` are under way, so ``configs`` may be endless.
        """
        return Results(self, iter(configs), ordered, max(1, window), how)

    def statistics(self) -> dict[str, Any]:
        """The engine's counts: results by status, builds, shared results, executors that were replaced."""
        return self.engine.statistics()

    def ir(self) -> bytes:
        """The kernel's IR, all recorded modules linked into one, as bitcode."""
        return Path(self.engine.ask({"type": "ir"}, "ir")["path"]).read_bytes()

    def memory(self, of: Union[str, EvalFuture]) -> Memory:
        """Device memory: ``"prologue"``, ``"epilogue"``, or what a replay submitted with ``memory=True`` left."""
        if isinstance(of, str):
            if of not in ("prologue", "epilogue"):
                raise ValueError(
                    f"there is memory of the prologue and of the epilogue, and of a future, but none of {of!r}"
                )
            reply = self.engine.ask({"type": "memory", "moment": of}, "memory")
            return Memory.from_reply(reply)
        of.result()
        if of.memory_file is None:
            raise ValueError("submit with memory=True to keep what a replay leaves in memory")
        return self.memory("prologue").laid_out_in(of.memory_file)

    def diff(self, of: EvalFuture) -> list[RegionDiff]:
        """Where a replay submitted with ``memory=True`` left other bytes than the recorded launch."""
        return diff(self.memory("epilogue"), self.memory(of))

    def _record(self, future: Any) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        config: ExperimentConfiguration = future.config
        entry = {"hash": config.grounded().hash(), "config": config.to_dict(), "result": future.result().to_dict()}
        line = json.dumps(entry, default=plain)
        with self._log_lock:
            if self._log is not None and not self._log.closed:
                self._log.write(line + "\n")
                self._log.flush()

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        """Ends the engine, after what was submitted is done; at once with ``cancel_futures``, or without ``wait``."""
        self.engine.close(cancel=cancel_futures or not wait)
        with self._log_lock:
            if self._log is not None:
                self._log.close()
        self._folder.cleanup()

    def __enter__(self) -> AsyncReplayExecutor:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.shutdown(cancel_futures=kind is not None)


class Results:
    """Results of :meth:`AsyncReplayExecutor.map`, for ``for`` and ``async for``. Leaving the loop early cancels the
    rest.
    """

    def __init__(
        self,
        executor: AsyncReplayExecutor,
        configs: Iterator[Configuration],
        ordered: bool,
        window: int,
        how: dict[str, Any],
    ) -> None:
        self._executor, self._configs, self._ordered, self._window, self._how = executor, configs, ordered, window, how
        # In the order of submission.
        self._waiting: collections.OrderedDict[int, EvalFuture] = collections.OrderedDict()

    def _fill(self, on_completion: Optional[Callable[[Any], None]] = None) -> bool:
        for config in itertools.islice(self._configs, self._window - len(self._waiting)):
            future = self._executor.submit(config, **self._how)
            self._waiting[future.job_id] = future
            if on_completion is not None:
                future.add_done_callback(on_completion)
        return bool(self._waiting)

    def _first(self) -> EvalFuture:
        return next(iter(self._waiting.values()))

    def _take(self, future: EvalFuture) -> ExperimentResult:
        result: ExperimentResult = future.result()
        del self._waiting[future.job_id]
        return result

    def __iter__(self) -> Iterator[ExperimentResult]:
        try:
            if self._ordered:
                while self._fill():
                    yield self._take(self._first())
            else:
                completed: queue.SimpleQueue[EvalFuture] = queue.SimpleQueue()
                while self._fill(completed.put):
                    yield self._take(completed.get())
        finally:
            self._give_up()

    async def __aiter__(self) -> AsyncIterator[ExperimentResult]:
        try:
            if self._ordered:
                while self._fill():
                    await asyncio.wrap_future(self._first())
                    yield self._take(self._first())
            else:
                loop = asyncio.get_running_loop()
                completed: asyncio.Queue[EvalFuture] = asyncio.Queue()

                def tell(future: EvalFuture) -> None:
                    # A loop that is closed waits for nothing any more.
                    with contextlib.suppress(RuntimeError):
                        loop.call_soon_threadsafe(completed.put_nowait, future)

                while self._fill(tell):
                    yield self._take(await completed.get())
        finally:
            self._give_up()

    def _give_up(self) -> None:
        for future in list(self._waiting.values()):
            future.cancel()
        self._waiting.clear()
