"""How a file is called in a report."""

from __future__ import annotations

import os


def relative(path: str) -> str:
    """As seen from the working directory, with forward slashes, in characters that can be printed."""
    path = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if not os.path.isabs(path):
        return os.path.normpath(path).replace(os.sep, "/")
    try:
        return os.path.relpath(path).replace(os.sep, "/")
    except ValueError:  # another drive
        return path.replace(os.sep, "/")
