"""One file per rule, in the room of its family. Each file with a `RULE` in it is a rule."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from stampede_guard.audit.rule import Rule


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    found = []
    for entry in pkgutil.walk_packages(__path__, f"{__name__}."):
        rule = getattr(importlib.import_module(entry.name), "RULE", None)
        if isinstance(rule, Rule):
            found.append(rule)
    return tuple(sorted(found, key=lambda rule: rule.code))


def rule_named(code: str) -> Rule | None:
    """Finds a rule by code or name, in any case."""
    wanted = code.lower()
    return next((rule for rule in all_rules() if wanted in (rule.code.lower(), rule.name)), None)
