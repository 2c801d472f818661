"""What a parametrised test is called."""

from __future__ import annotations

import re

__all__ = ["titled"]

_ADDRESS = re.compile(r"( at)? 0x[0-9a-f]+")


def titled(value: object) -> str:
    """A value's text without its address: each worker of a run collects the tests, and must call them the same."""
    return _ADDRESS.sub("", value if isinstance(value, str) else repr(value))
