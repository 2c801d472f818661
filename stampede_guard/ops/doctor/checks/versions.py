"""Versions of the packages installed here."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.ops.doctor.diagnosis import Diagnosis
from stampede_guard.ops.doctor.facts import Facts

__all__ = ["check"]

LEAST = {"redis": (7, 2), "msgspec": (0, 19)}
"""As in pyproject.toml."""


def check(facts: Facts) -> Iterator[Diagnosis]:
    seen = ", ".join(f"{name} {version}" for name, version in facts.versions.items())
    old = [name for name, least in LEAST.items() if _numbers(facts.versions.get(name, "")) < least]
    if old:
        wanted = " ".join(f"'{name}>={'.'.join(map(str, LEAST[name]))}'" for name in old)
        yield Diagnosis("versions", "fail", seen, f"pip install -U {wanted}")
    else:
        yield Diagnosis("versions", "ok", seen)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
