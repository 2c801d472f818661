"""Names of entries become hashes for a viewer that may not see them: pure.

Without `$STAMPEDE_GUARD_NAMES_SECRET`, a hash is no secret: who can guess a name can compute the hash and compare.

The switch of the fleet says what its processes publish, and another viewer may have asked for names. So each viewer
hides names in what it reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stampede_guard.stores.fleet.stream import Happening, hashed

__all__ = ["NAMELESS", "masked", "masked_key", "masked_said"]

NAMELESS = frozenset(("mode", "release_lease", "pause_job", "resume_job", "run_job"))
"""Actions of operators whose sentences never contain the name of an entry. What others say is hidden."""

_HASH = re.compile(r"#[0-9a-f]{16}")
_FAILED = re.compile(r"failed: \w{1,100}")


def masked_key(key: str) -> str:
    """The hash of a name. A hash, and the empty text, stay."""
    return key if not key or _HASH.fullmatch(key) else hashed(key)


def masked_said(action: Any, said: Any) -> Any:
    """What an operator's action said, and only the action if this may contain names of entries."""
    is_nameless = action in NAMELESS or (isinstance(said, str) and _FAILED.fullmatch(said))
    return said if is_nameless else action


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
        # From a console that shows names, or from a command.
        detail = {**detail, "said": masked_said(detail.get("what", ""), detail["said"])}
    return replace(one, key=key, detail=detail)
