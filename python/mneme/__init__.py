"""Record-replay and autotuning for GPU kernels: the Python side of ``mneme-replay``.

>>> from mneme import AsyncReplayExecutor, RecordedExecution
>>> recording = RecordedExecution.from_json("recording/15941914485064662553.json")     # doctest: +SKIP
>>> with AsyncReplayExecutor("recording/15941914485064662553.json") as executor:       # doctest: +SKIP
...     print(executor.evaluate({"passes": "default<O2>"}).exec_time)
"""

from mneme.annotation import annotate
from mneme.async_executor import AsyncReplayExecutor
from mneme.errors import Cancelled, EngineError, EngineNotFound, MnemeError, RecordingError, RequestError, SpaceError
from mneme.evaluation import Candidate, Evaluator, Floor, Judgement, Speedup, evaluate, evaluate_async
from mneme.futures import EvalFuture
from mneme.mneme_types import ExperimentConfiguration, ExperimentResult, dim3
from mneme.recorded_execution import KernelInstance, RecordedExecution

__version__ = "0.1.0"

__all__ = [
    "AsyncReplayExecutor",
    "Cancelled",
    "Candidate",
    "EngineError",
    "EngineNotFound",
    "EvalFuture",
    "Evaluator",
    "ExperimentConfiguration",
    "ExperimentResult",
    "Floor",
    "Judgement",
    "KernelInstance",
    "MnemeError",
    "RecordedExecution",
    "RecordingError",
    "RequestError",
    "SpaceError",
    "Speedup",
    "annotate",
    "dim3",
    "evaluate",
    "evaluate_async",
]
