#!/usr/bin/env python3
"""One search by the workers of a Dask cluster, which share one Optuna study: a task is a tuner on a worker's GPUs.

    examples/tune-dask.py RECORDING.json INSTANCE RESULTS
        [--scheduler ADDRESS] [--tuners N] [--trials N] [--storage URL] [OPTIONS OF mneme-tune…]

Workers have one thread each (`dask worker --nthreads 1`); without --scheduler they are processes of this machine.
RESULTS, and a storage that is a file, have to be on a file system that all workers see. Dask runs the task of a worker
that is lost on another one, where the tuner goes on with what is in RESULTS. Needs `pip install distributed optuna`.
"""

import argparse
import json
import subprocess
from pathlib import Path

from distributed import Client, as_completed


def tune(number: int, arguments: list[str], folder: str) -> dict:
    """Runs a tuner; its number is its seed, as equal seeds would propose equal candidates."""
    resume = ["--resume"] if Path(folder, "config.json").exists() else []
    command = ["mneme-tune", *arguments, "--seed", str(number), "--results-dir", folder, "--quiet", *resume]
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    summary = Path(folder, "summary.json")
    if not summary.exists():
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(summary.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recording")
    parser.add_argument("instance")
    parser.add_argument("results", type=Path)
    parser.add_argument("--scheduler")
    parser.add_argument("--tuners", type=int, default=4)
    parser.add_argument("--trials", type=int, default=500, help="of each tuner")
    parser.add_argument("--storage", help="a database of Optuna's; a journal file in RESULTS without it")
    options, more = parser.parse_known_args()

    results = options.results.absolute()
    results.mkdir(parents=True, exist_ok=True)
    arguments = ["-rdb", str(Path(options.recording).absolute()), "-rid", options.instance, "--space-preset", "full"]
    arguments += ["--sampler", "tpe", "--trials", str(options.trials), "--cache", f"{results}/cache/"]
    storage = options.storage or f"{results}/study.journal"
    arguments += ["--study-name", options.instance, "--optuna-storage", storage, *more]
    # One tuner at a time on a worker: two of them would disturb each other's times.
    client = Client(options.scheduler) if options.scheduler else Client(n_workers=options.tuners, threads_per_worker=1)
    with client:
        tasks = {}
        for number in range(options.tuners):
            tasks[client.submit(tune, number, arguments, f"{results}/node-{number}", pure=False)] = number
        found = [(summary, tasks[task]) for task, summary in as_completed(tasks, with_results=True)]
    verified = [(summary, number) for summary, number in found if summary.get("best_metric") is not None]
    if not verified:
        raise SystemExit(f"error: no tuner has found a configuration that verifies; see {results}/node-*/logs/tune.log")
    best, number = min(verified, key=lambda it: it[0]["best_metric"])
    print(f"{best['best_metric'] / 1000:.1f} us, the best of {len(verified)} tuners: {results}/node-{number}/report.html")
    print(best.get("verdict", ""))


if __name__ == "__main__":
    main()
