"""The name of a file in a report."""

from __future__ import annotations

import os
from pathlib import Path


def relative(path: str) -> str:
    """Relative to the working directory, with forward slashes and only printable characters."""
    path = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if not os.path.isabs(path):
        return os.path.normpath(path).replace(os.sep, "/")
    try:
        return os.path.relpath(path).replace(os.sep, "/")
    except ValueError:  # another drive
        return path.replace(os.sep, "/")


def seen_from(folder: str | None, path: str) -> str:
    """The same relative to a folder; None is the working directory. A link to the folder counts as the folder."""
    if folder is None:
        return relative(path)
    try:
        found = os.path.relpath(path, folder)
        if found.partition(os.sep)[0] == os.pardir:
            real = os.path.relpath(os.path.realpath(path), os.path.realpath(folder))
            found = found if real.partition(os.sep)[0] == os.pardir else real
    except ValueError:  # another drive
        return relative(path)
    return relative(found)


def common_folder(paths: list[str]) -> Path:
    """The folder that contains all of these; the working directory if there is none."""
    found = [os.path.abspath(path) for path in paths]
    try:
        common = os.path.commonpath(
            [path if os.path.isdir(path) else os.path.dirname(path) for path in found]
        )
    except ValueError:  # several drives
        return Path.cwd()
    return Path(common)
