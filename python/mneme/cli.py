"""The program ``mneme`` as a function, with the name of the existing package's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Optional

from mneme.engine import find_program


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Runs ``mneme`` with these arguments, or with those of this program, and returns its exit status."""
    sys.stdout.flush()
    return subprocess.call([find_program("mneme"), *map(str, sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    sys.exit(main())
