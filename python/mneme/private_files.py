"""Folders and files that only their owner may read and write, whatever the process's mask allows.

Recordings and results hold code or what decides about code, so whoever can write to them can run code as their owner.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO


def make_folder(folder: Path) -> None:
    """Create a folder, and those above it that do not exist; one that exists keeps its mode."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def open_text(path: Path, mode: str) -> IO[str]:
    """Open a text file to write (``w``) or append to (``a``); one that exists keeps its mode."""
    return open(path, mode, encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600))
