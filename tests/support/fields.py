"""Fields of a guard, sorted: which are of its Policy, and which of its Limits."""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict

from stampede_guard.policy import Limits, Policy

__all__ = ["Fields", "fields_of_guard"]

LIMITS = {field.name for field in dataclasses.fields(Limits)}


class Fields(TypedDict):
    policy: Policy
    limits: Limits


def fields_of_guard(**fields: Any) -> Fields:
    """As keywords of a guard: `StampedeGuard(store, **fields_of_guard(ttl=300, max_flights=2))`."""
    limits = {name: fields.pop(name) for name in LIMITS & fields.keys()}
    return {"policy": Policy(**fields), "limits": Limits(**limits)}
