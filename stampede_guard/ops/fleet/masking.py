"""Names of entries become hashes for a viewer that may not see them: pure.

The switch of the fleet says what its processes publish, and another viewer may have asked for names. So each viewer
hides names in what it reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stampede_guard.stores.fleet.stream import Happening, hashed

__all__ = ["masked", "masked_key"]

_HASH = re.compile(r"#[0-9a-f]{16}")


def masked_key(key: str) -> str:
    """The hash of a name. A hash, and the empty text, stay."""
    return key if not key or _HASH.fullmatch(key) else hashed(key)


def masked(one: Happening) -> Happening:
    """Without the name of its entry, also in its details."""
    key = masked_key(one.key)
    detail: Mapping[str, Any] = one.detail
    if key != one.key:
        detail = {
            name: value.replace(one.key, key) if isinstance(value, str) else value
            for name, value in detail.items()
        }
    if one.kind == "operator" and "said" in detail:
        # A sentence about entries, from a console that shows names. Other consoles publish the action's name here.
        detail = {**detail, "said": detail.get("what", "")}
    return replace(one, key=key, detail=detail)
