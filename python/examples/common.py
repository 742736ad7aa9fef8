"""What the examples share: the command line, and the space of block sizes and pipelines."""

from __future__ import annotations

import argparse
from typing import Any, Optional

from mneme import ExperimentConfiguration, KernelInstance
from mneme.tuning.search_space import BoolParam, CategoricalParam, IntRangeParam, SearchSpace


def arguments(description: str, trials: Optional[int] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--record-db", required=True, help="the .json of the recorded kernel")
    parser.add_argument("--record-id", required=True, help="the dynamic hash of the instance")
    parser.add_argument("--device", help="cpu, cuda, hip, or numbers of GPUs [default: as recorded]")
    if trials is not None:
        parser.add_argument("--trials", type=int, default=trials, help=f"configurations to try [default: {trials}]")
    return parser.parse_args()


class BlocksAndPipelines(SearchSpace):
    """Block sizes with as many threads in all as recorded, standard pipelines, and what the kernel
    is specialised for.
    """

    def __init__(self, kernel: KernelInstance) -> None:
        self.kernel = kernel
        self.threads = kernel.grid_dim.x * kernel.block_dim.x

    def dimensions(self) -> dict[str, Any]:
        return {
            "block_dim_x": IntRangeParam("block_dim_x", low=64, high=1024, step=64),
            "passes": CategoricalParam("passes", [f"default<{level}>" for level in ("O1", "O2", "O3", "Os", "Oz")]),
            "specialize": BoolParam("specialize"),
            "specialize_dims": BoolParam("specialize_dims"),
        }

    def derived(self, params: dict[str, Any]) -> ExperimentConfiguration:
        config = self.baseline()
        config.block.x = params["block_dim_x"]
        config.grid.x = -(-self.threads // config.block.x)
        config.passes = params["passes"]
        config.specialize = params["specialize"]
        config.specialize_dims = params["specialize_dims"]
        return config

    def baseline(self) -> ExperimentConfiguration:
        return ExperimentConfiguration.from_dict(self.kernel.configuration().to_dict())
