"""Optuna's TPE sampler proposes configurations, one after the other; each answer improves the next proposal."""

from __future__ import annotations

import statistics

import optuna
from common import BlocksAndPipelines, arguments

from mneme import AsyncReplayExecutor, RecordedExecution
from mneme.tuning.sample_strategy import OptunaSamplingStrategy


def main() -> int:
    args = arguments(__doc__ or "", trials=50)
    space = BlocksAndPipelines(RecordedExecution.from_json(args.record_db)[args.record_id])
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="minimize", sampler=optuna.samplers.TPESampler(seed=0))
    with AsyncReplayExecutor(args.record_db, args.record_id, iterations=5, device=args.device) as executor:
        baseline = executor.evaluate(space.baseline())
        if not baseline.verified:
            print(f"the baseline did not verify: {baseline.error}")
            return 1
        for config, trial in OptunaSamplingStrategy(space, study, args.trials):
            result = executor.evaluate(config)
            if result.verified:
                trial.set_user_attr("mneme.config", config.to_dict())
                study.tell(trial, statistics.median(result.measured))
            else:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
    reference = statistics.median(baseline.measured)
    print(
        f"baseline {reference / 1000:.1f} µs, best {study.best_value / 1000:.1f} µs, "
        f"speedup {reference / study.best_value:.2f}"
    )
    print(study.best_trial.user_attrs["mneme.config"])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
