"""Builds the package in a copy of its folder: the checkout stays as it is, and may be read-only.

setuptools writes ``build`` and ``*.egg-info`` beside the source. An editable installation needs the latter there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from typing import Any, Optional

from setuptools import build_meta

build_editable = build_meta.build_editable
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable

LEFT_OUT = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "tests", ".*")

Settings = Optional[dict[str, Any]]


@contextlib.contextmanager
def a_copy() -> Iterator[None]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        source = shutil.copytree(before, os.path.join(folder, "source"), ignore=LEFT_OUT)
        for place, _, _ in os.walk(source):
            os.chmod(place, os.stat(place).st_mode | stat.S_IWUSR)
        os.chdir(source)
        try:
            yield
        finally:
            os.chdir(before)


def get_requires_for_build_wheel(settings: Settings = None) -> list[str]:
    with a_copy():
        return build_meta.get_requires_for_build_wheel(settings)


def get_requires_for_build_sdist(settings: Settings = None) -> list[str]:
    with a_copy():
        return build_meta.get_requires_for_build_sdist(settings)


def prepare_metadata_for_build_wheel(folder: str, settings: Settings = None) -> str:
    folder = os.path.abspath(folder)
    with a_copy():
        return build_meta.prepare_metadata_for_build_wheel(folder, settings)


def build_wheel(folder: str, settings: Settings = None, metadata: Optional[str] = None) -> str:
    folder = os.path.abspath(folder)
    metadata = metadata and os.path.abspath(metadata)
    with a_copy():
        return build_meta.build_wheel(folder, settings, metadata)


def build_sdist(folder: str, settings: Settings = None) -> str:
    folder = os.path.abspath(folder)
    with a_copy():
        return build_meta.build_sdist(folder, settings)
