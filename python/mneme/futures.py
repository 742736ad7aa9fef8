"""The result of a submission, as soon as there is one."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Generator
from typing import Any, Optional

from mneme.mneme_types import ExperimentConfiguration, ExperimentResult


class EvalFuture(concurrent.futures.Future[Any]):
    """A :class:`concurrent.futures.Future` that knows its configuration, and can be awaited.

    ``result()`` gives an :class:`~mneme.mneme_types.ExperimentResult`. A replay that failed has a result too, which
    says how; exceptions are for engines that die (:class:`~mneme.errors.EngineError`) and for requests that make no
    sense.
    """

    def __init__(
        self, job_id: int, config: Optional[ExperimentConfiguration], on_cancel: Optional[Callable[[int], None]] = None
    ) -> None:
        super().__init__()
        self.job_id = job_id
        self.config = config
        self.memory_file: Optional[str] = None
        self._on_cancel = on_cancel
        self._error: Optional[str] = None

    def result(self, timeout: Optional[float] = None) -> Any:
        """Waits for the result, and returns it. ``None`` if there is none after ``timeout`` seconds."""
        try:
            result = super().result(timeout)
        except concurrent.futures.TimeoutError:
            if not self.done():
                return None
            result = super().result()
        if self._error is not None:
            raise RuntimeError(self._error)
        return result

    def set_error(self, error: str) -> None:
        """Ends the future with a failed result that has this error.

        If there is a result already, it gets the error, and :meth:`result` raises ``RuntimeError`` from now on.
        """
        if not self.done():
            self.set_result(ExperimentResult(error=error, failed=True))
            return
        super().result().error = self._error = error

    def cancel(self) -> bool:
        """Gives the configuration up, unless it is done. One that runs already is finished, and nobody hears of it."""
        cancelled = super().cancel()
        if cancelled and self._on_cancel is not None:
            self._on_cancel(self.job_id)
        return cancelled

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self).__await__()
