"""An evaluator for OpenEvolve, which searches for faster sources of a recorded kernel (docs/guides/agents.md).

The whole of an evaluation file::

    from mneme.openevolve import evaluator

    evaluate = evaluator("recording", kernel="matmul")
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mneme.engine import PathLike
from mneme.evaluation import Candidate, Evaluator, Judgement


def score(judgement: Judgement) -> float:
    """The number that a search maximises.

    Of a faster candidate it is the low end of the interval, so that luck wins nothing. What is not faster has at most
    1, the application's own speed, and what is not right has 0.
    """
    if judgement.speedup is None or judgement.verdict in ("incorrect", "unproven", "invalid"):
        return 0.0
    return judgement.speedup.low if judgement.verdict == "faster" else min(judgement.speedup.estimate, 1.0)


def result(judgement: Judgement) -> Any:
    """OpenEvolve's result of a judgement: metrics, and artifacts for the next prompt."""
    metrics = {"combined_score": score(judgement), "correct": float(judgement.speedup is not None)}
    if judgement.exec_time is not None:
        metrics["exec_time_us"] = judgement.exec_time / 1000
    artifacts = {"verdict": judgement.verdict, "feedback": judgement.feedback}
    try:
        from openevolve.evaluation_result import EvaluationResult
    except ImportError:
        return {**metrics, **artifacts}
    return EvaluationResult(metrics=metrics, artifacts=artifacts)


def evaluator(recording: PathLike, **how: Any) -> Callable[[PathLike], Any]:
    """The function ``evaluate(path)`` of an evaluation file.

    ``how`` is what :class:`~mneme.evaluation.Evaluator` takes. The first call starts ``mneme evaluate``, which then
    judges all programs of this process. If it dies, the next call starts it again, and it goes on in ``results_dir``.
    """
    running: list[Evaluator] = []
    lock = threading.Lock()

    def current() -> Evaluator:
        with lock:
            if not running or running[0].process.poll() is not None:
                running[:] = [Evaluator(recording, **{**how, "resume": how.get("resume", False) or bool(running)})]
            return running[0]

    def evaluate(path: PathLike) -> Any:
        return result(current().evaluate(Candidate(source=Path(path).read_text())))

    return evaluate
