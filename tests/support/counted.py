"""The library's Python functions that run within a block: a figure of speed that no load of the machine changes."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterator
from typing import Any

import stampede_guard

__all__ = ["counted"]


@contextlib.contextmanager
def counted() -> Iterator[list[str]]:
    """Their names, one for each call. A coroutine counts each time that it continues."""
    ours = os.path.dirname(stampede_guard.__file__)
    found: list[str] = []

    def count(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        # Newer versions of Python run a comprehension without a call.
        if event == "call" and code.co_filename.startswith(ours) and not code.co_name.endswith("comp>"):
            found.append(code.co_qualname)

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # it would call what ends the objects of earlier tests
    sys.setprofile(count)
    try:
        yield found
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
