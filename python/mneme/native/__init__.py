"""The programs that a wheel carries, in ``bin`` and ``lib`` beside this file; a source installation has none here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# One file under two names, which tells them apart by what it is called as.
FILES = {"mneme-bisect": "mneme-replay"}


def main() -> None:
    """Becomes the carried program that this was called as (the wheel's console scripts)."""
    name = Path(sys.argv[0]).name
    program = Path(__file__).parent / "bin" / FILES.get(name, name)
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{program} cannot be started: {error.strerror}; is another mneme before the wheel's on PYTHONPATH?")
