"""An operator's switch: a mode for one function or for all of a namespace, as text and as data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, get_args

from stampede_guard.policy import Mode

__all__ = ["EVERYTHING", "LONGEST_TITLE", "MOST_SWITCHES", "WATCH_TITLE", "Switch"]

EVERYTHING = "*"
"""As a function's title: all functions of the namespace."""
WATCH_TITLE = "*watched"
"""As a title: no mode. Somebody watches the fleet, and may see names of entries (`on:1`) or their hashes (`on:0`)."""
LONGEST_TITLE = 200
"""Characters of a function's title in a switch."""
MOST_SWITCHES = 256
"""Per namespace, because each process reads all of them. The one of viewers does not count: it shows what happens."""

_TEXT = re.compile(r"(?P<mode>[a-z]+)(?::(?P<sample>[0-9.]{1,20}))?")


@dataclass(frozen=True, slots=True)
class Switch:
    """`sample` None: the function's own. `left`: seconds for which it still holds; None = until it is changed."""

    mode: Mode
    sample: float | None = None
    left: float | None = None

    def __str__(self) -> str:
        return self.mode if self.sample is None else f"{self.mode}:{self.sample:g}"

    @classmethod
    def parse(cls, text: str, *, left: float | None = None) -> Switch | None:
        """`bypass`, or `on:0.1` with a sample; None for anything else, such as a mode of a later version."""
        found = _TEXT.fullmatch(text)
        if found is None or found["mode"] not in get_args(Mode):
            return None
        mode: Any = found["mode"]
        if found["sample"] is None:
            return cls(mode, None, left)
        try:
            sample = float(found["sample"])
        except ValueError:
            return None
        return cls(mode, sample, left) if 0.0 <= sample <= 1.0 else None
