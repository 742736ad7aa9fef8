"""All configurations are submitted at once; the engine builds them on all cores and spreads them over the GPUs it was
given.
"""

from __future__ import annotations

import statistics

from common import BlocksAndPipelines, arguments

from mneme import AsyncReplayExecutor, RecordedExecution
from mneme.tuning.sample_strategy import ExhaustiveSamplingStrategy


def main() -> int:
    args = arguments(__doc__ or "")
    space = BlocksAndPipelines(RecordedExecution.from_json(args.record_db)[args.record_id])
    with AsyncReplayExecutor(
        args.record_db, args.record_id, iterations=5, num_workers=4, device=args.device
    ) as executor:
        futures = [
            (config, executor.submit(config)) for config in ExhaustiveSamplingStrategy(space) if config.is_valid()
        ]
        verified = [(config, future.result()) for config, future in futures if future.result().verified]
    print(f"{len(verified)} of {len(futures)} verified")
    if not verified:
        return 1
    config, result = min(verified, key=lambda pair: statistics.median(pair[1].measured))
    print(
        f"best: {statistics.median(result.measured) / 1000:.1f} µs with blocks of {config.block.x} and {config.passes}"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
