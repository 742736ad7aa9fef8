"""Tries all block sizes from 64 to 1024 with five pipelines on a kernel that was recorded with one-dimensional blocks.

The grid stays as recorded, so what does not verify is a block too small for it. `mneme tune --space-module
tuning_vecadd_exhaustive.py:EntireSpace` searches the same space.
"""

import argparse
import json
import statistics
import time

from mneme.async_executor import AsyncReplayExecutor
from mneme.mneme_types import ExperimentConfiguration
from mneme.recorded_execution import RecordedExecution
from mneme.tuning.sample_strategy import ExhaustiveSamplingStrategy
from mneme.tuning.search_space import BaseParam, CategoricalParam, IntRangeParam, SearchSpace


class EntireSpace(SearchSpace):
    def __init__(self, recorded_kernel: RecordedExecution.KernelInstance) -> None:
        self.kernel = recorded_kernel
        self.parameters: dict[str, BaseParam] = {
            "block_dim_x": IntRangeParam("block_dim_x", low=64, high=1024, step=64),
            "passes": CategoricalParam(
                "passes", ["default<O1>", "default<O2>", "default<O3>", "default<Os>", "default<Oz>"]
            ),
        }

    def dimensions(self) -> dict[str, BaseParam]:
        return self.parameters

    def launch(self, block_x: int) -> dict[str, object]:
        recorded = self.kernel
        return {
            "grid": recorded.grid_dim.to_dict(),
            "block": {"x": block_x, "y": recorded.block_dim.y, "z": recorded.block_dim.z},
            "shared_mem": recorded.shared_mem,
        }

    def derived(self, params: dict[str, object]) -> ExperimentConfiguration:
        block_x = params["block_dim_x"]
        assert isinstance(block_x, int)
        return ExperimentConfiguration.from_dict({**self.launch(block_x), "passes": params["passes"]})

    def baseline(self) -> ExperimentConfiguration:
        return ExperimentConfiguration.from_dict(self.launch(self.kernel.block_dim.x))


def tune(executor: AsyncReplayExecutor, space: EntireSpace) -> int:
    baseline = executor.evaluate(space.baseline())
    print("Baseline configuration:")
    print(json.dumps(space.baseline().to_dict(), indent=2))
    if not baseline.verified:
        print(f"The baseline did not verify: {baseline.error}")
        return 1
    reference = statistics.mean(baseline.exec_time)
    print(f"Baseline mean exec_time = {reference} (samples = {baseline.exec_time})")

    begin = time.time()
    fastest = None
    for number, config in enumerate(ExhaustiveSamplingStrategy(space)):
        if not config.is_valid():
            continue
        what = f"[{number}] passes={config.passes} block.x={config.block.x}"
        result = executor.evaluate(config)
        if not result.verified:
            print(f"{what} FAILED error={result.error}")
            continue
        mean = statistics.mean(result.exec_time)
        print(f"{what} mean={mean} speedup={reference / mean}")
        if fastest is None or mean < fastest[0]:
            fastest = (mean, config)
    print(f"Total tuning time: {time.time() - begin:.2f}s")
    if fastest is None:
        print("Nothing verified.")
        return 2
    mean, config = fastest
    print(f"BEST: passes={config.passes} block.x={config.block.x} mean={mean} speedup={reference / mean}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record-db", required=True, help="the .json of the recorded kernel")
    parser.add_argument("--record-id", required=True, help="the dynamic hash of the instance")
    args = parser.parse_args()
    executor = AsyncReplayExecutor(
        record_db=args.record_db, record_id=args.record_id, iterations=5, results_db_dir="./results", num_workers=1
    )
    try:
        return tune(executor, EntireSpace(RecordedExecution.from_json(args.record_db)[args.record_id]))
    finally:
        executor.shutdown()


if __name__ == "__main__":
    raise SystemExit(main())
