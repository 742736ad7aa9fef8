"""What ``mneme-tune`` starts to use Python: search spaces written as classes, and Optuna.

``python -m mneme.tuning.bridge`` answers one JSON object a line with one JSON object a line. The tuner runs the session
and replays the candidates; this process is asked what a point means (``ground``), or which one to try next (``ask`` and
``claim``), and told what came of it (``tell``). Code of the user's may print: its standard output is the tuner's log.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Mapping
from typing import Any, Optional, TextIO

from mneme.tuning.study import Described, Study
from mneme.tuning.user_space import Problem, Space, what


class Bridge:
    """Spaces and a study, and the requests that they answer."""

    def __init__(self) -> None:
        self.spaces: list[Space] = []
        self.study: Optional[Study] = None

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        kind = request["type"]
        if kind == "space":
            space = Space(
                request["class"],
                request["arguments"],
                request["database"],
                request["instance"],
                request.get("recorded"),
            )
            try:
                # Without one, it is the recorded launch.
                baseline = space.configuration(getattr(space.space, "baseline", dict)()).to_dict()
            except Exception as error:
                traceback.print_exc()
                raise Problem(f"baseline() of {request['class']} fails: {what(error)}") from error
            self.spaces.append(space)
            described = [each.description for each in space.parameters]
            return {"type": "space", "space": len(self.spaces) - 1, "parameters": described, "baseline": baseline}
        if kind == "ground":
            return self.spaces[int(request["space"])].ground(request["point"])
        if kind == "study":
            place = request.get("space")
            self.study = Study(request, Described(request["parameters"]) if place is None else self.spaces[int(place)])
            return {"type": "study", "trials": len(self.study.study.get_trials(deepcopy=False))}
        assert self.study is not None, "a study comes before its questions"
        if kind == "ask":
            return self.study.ask()
        if kind == "claim":
            return self.study.claim(request["number"], request["point"], request.get("force", False))
        if kind == "tell":
            return self.study.tell(request["number"], request.get("values"), request.get("attributes", {}))
        if kind == "report":
            return self.study.report(request["number"], request["step"], request["value"])
        if kind == "recall":
            return self.study.recall(request["point"], request.get("values"))
        if kind == "abandon":
            return self.study.abandon()
        raise Problem(f"the bridge knows no request '{kind}'; install mneme-tune and the package from one release")


def serve(requests: TextIO, replies: TextIO) -> None:
    bridge = Bridge()
    for line in requests:
        try:
            reply = bridge.answer(json.loads(line))
        except Problem as problem:
            reply = {"type": "error", "error": str(problem)}
        except Exception as error:
            traceback.print_exc()
            reply = {"type": "error", "error": what(error)}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def main() -> None:
    # What Optuna's storage and spaces of the user's write belongs to the session.
    os.umask(0o077)
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, replies)


if __name__ == "__main__":
    main()
