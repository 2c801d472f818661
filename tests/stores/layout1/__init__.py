"""The layout before this one, as it was: how a process of the version before reads, writes and what scripts it runs.

Never to be changed. With the next layout, this goes and a copy of the present one takes its place. `pose()` makes this
process one of the version before; it must be called before anything of the stores is imported.
"""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import Any

from stampede_guard.core.entry import Reading

__all__ = ["HEADER", "LUA", "parse_value", "pose", "value_bytes"]

LUA = Path(__file__).parent
HEADER = 43


def value_bytes(body: bytes, *, token: int, total_ms: int, stale_ms: int, **_: Any) -> bytes:
    """What a caller knows beside this had no place."""
    return b"SG1%016d%012d%012d%b" % (token, total_ms, stale_ms, body)


def parse_value(stored: bytes | None, remaining_ms: int) -> Reading | None:
    if stored is None or stored[:3] != b"SG1" or len(stored) < HEADER:
        return None
    token, lifetimes = stored[3:19], stored[19:HEADER]
    if not token.isdigit() or not lifetimes.isdigit() or int(token) >= 2**53:
        return None
    return Reading(stored[HEADER:], int(token), int(lifetimes[:12]), int(lifetimes[12:]), remaining_ms)


class _Folder:
    """In the place of the package's folder: `folder / "lua" / "acquire.lua"` is the script as it was.

    A script that came later is the one of today: what this version knows nothing of, nobody asks it for.
    """

    def __init__(self, today: Any) -> None:
        self._today = today

    def __truediv__(self, name: str) -> Any:
        then = LUA / name
        return then if then.exists() else _Folder(self._today / name) if name == "lua" else self._today / name


def pose() -> None:
    from stampede_guard.stores.connections import wire

    real: Any = importlib.resources.files

    def files(package: str) -> Any:
        return _Folder(real(package)) if package == "stampede_guard.stores" else real(package)

    importlib.resources.files = files  # type: ignore[assignment]
    wire.HEADER, wire.value_bytes, wire.parse_value = HEADER, value_bytes, parse_value  # type: ignore[misc,assignment]
