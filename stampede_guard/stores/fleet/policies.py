"""A function's policy as text, for viewers of the fleet: the fields that differ from the library's defaults.

The fields of a policy are numbers, booleans and a few fixed words. So the text can contain no secret, and it is short.
"""

from __future__ import annotations

import dataclasses
import json

from stampede_guard.errors import PolicyError
from stampede_guard.policy import Policy

__all__ = ["LONGEST_POLICY", "policy_of", "policy_text"]

LONGEST_POLICY = 2000
"""Characters that are read. Ours are shorter, also if every field differs."""
_DEFAULT = Policy()
_FIELDS = tuple(field.name for field in dataclasses.fields(Policy))


def policy_text(policy: Policy) -> str:
    """JSON of the fields that differ."""
    differing = {
        name: value for name in _FIELDS if (value := getattr(policy, name)) != getattr(_DEFAULT, name)
    }
    return json.dumps(differing, separators=(",", ":"))


def policy_of(text: str) -> Policy | None:
    """The policy; None for what is none. Ignores fields of later versions."""
    if len(text) > LONGEST_POLICY:
        return None
    try:
        told = json.loads(text)
        if not isinstance(told, dict):
            return None
        return Policy(**{name: told[name] for name in _FIELDS if name in told})
    except (ValueError, TypeError, OverflowError, RecursionError, PolicyError):
        return None
