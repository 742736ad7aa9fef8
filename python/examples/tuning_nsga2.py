"""Two objectives at once, time and registers: NSGA-II keeps the configurations that no other one beats in both."""

from __future__ import annotations

import statistics

import optuna
from common import BlocksAndPipelines, arguments

from mneme import AsyncReplayExecutor, RecordedExecution
from mneme.tuning.sample_strategy import OptunaSamplingStrategy


def main() -> int:
    args = arguments(__doc__ or "", trials=60)
    space = BlocksAndPipelines(RecordedExecution.from_json(args.record_db)[args.record_id])
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        directions=["minimize", "minimize"], sampler=optuna.samplers.NSGAIISampler(population_size=10, seed=0)
    )
    with AsyncReplayExecutor(args.record_db, args.record_id, iterations=5, device=args.device) as executor:
        for config, trial in OptunaSamplingStrategy(space, study, args.trials):
            result = executor.evaluate(config)
            if result.verified:
                trial.set_user_attr("mneme.config", config.to_dict())
                study.tell(trial, [statistics.median(result.measured), result.reg_usage])
            else:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
    for best in sorted(study.best_trials, key=lambda trial: trial.values):
        config = best.user_attrs["mneme.config"]
        print(
            f"{best.values[0] / 1000:8.1f} µs {best.values[1]:4.0f} registers  block {config['block']['x']:4} "
            f"{config['passes']}"
        )
    return 0 if study.best_trials else 1


if __name__ == "__main__":
    raise SystemExit(main())
