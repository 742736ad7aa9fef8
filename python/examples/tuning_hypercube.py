"""A kernel with a grid-stride loop runs with any launch. Launch and launch bounds depend on each other (a bound is at
least the block size; more threads a block need fewer blocks), so the space is a unit cube whose coordinates are
fractions of what the ones before them leave possible: every point is valid, and any sampler of real numbers may be
used.
"""

from __future__ import annotations

import math
import statistics
from typing import Any

import optuna
from common import arguments

from mneme import AsyncReplayExecutor, ExperimentConfiguration, KernelInstance, RecordedExecution
from mneme.tuning.sample_strategy import OptunaSamplingStrategy
from mneme.tuning.search_space import RealRangeParam, SearchSpace

WARP = 32
MAX_THREADS = 1024


def share(fraction: float, most: int) -> int:
    """1 to ``most``."""
    return max(1, min(math.ceil(fraction * most), most))


class UnitCube(SearchSpace):
    def __init__(self, kernel: KernelInstance) -> None:
        self.kernel = kernel
        self.threads = kernel.grid_dim.x * kernel.block_dim.x

    def dimensions(self) -> dict[str, Any]:
        return {name: RealRangeParam(name, 0.0, 1.0) for name in ("warps", "blocks", "bound")}

    def derived(self, params: dict[str, Any]) -> ExperimentConfiguration:
        threads = WARP * share(params["warps"], MAX_THREADS // WARP)
        blocks = share(params["blocks"], math.ceil(self.threads / threads))
        bound = threads + WARP * int(params["bound"] * ((MAX_THREADS - threads) // WARP))
        config = self.baseline()
        config.block.x, config.grid.x = threads, blocks
        config.specialize = config.specialize_dims = config.set_launch_bounds = True
        config.max_threads = bound
        return config

    def baseline(self) -> ExperimentConfiguration:
        return ExperimentConfiguration.from_dict(self.kernel.configuration().to_dict())


def main() -> int:
    args = arguments((__doc__ or "").split(". ")[0], trials=100)
    space = UnitCube(RecordedExecution.from_json(args.record_db)[args.record_id])
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    with AsyncReplayExecutor(args.record_db, args.record_id, iterations=5, device=args.device) as executor:
        baseline = executor.evaluate(space.baseline())
        if not baseline.verified:
            print(f"the baseline did not verify: {baseline.error}")
            return 1
        reference = statistics.median(baseline.measured)
        for config, trial in OptunaSamplingStrategy(space, study, args.trials):
            result = executor.evaluate(config)
            # A kernel without a grid-stride loop needs all its blocks: what it leaves out does not verify, and has no
            # speedup.
            study.tell(trial, reference / statistics.median(result.measured) if result.verified else 0.0)
    best = space.derived(study.best_params)
    print(
        f"speedup {study.best_value:.2f} with {best.grid.x} blocks of {best.block.x} threads, bound {best.max_threads}"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
