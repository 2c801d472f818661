"""Kind and version of the server: the scripts need features of Redis 7.0."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.ops.doctor.diagnosis import Diagnosis
from stampede_guard.ops.doctor.facts import Facts, ServerFacts

__all__ = ["check"]

LEAST = (7, 0)


def check(facts: Facts, server: ServerFacts) -> Iterator[Diagnosis]:
    info = server.info or {}
    valkey = info.get("valkey_version")
    text = valkey or info.get("redis_version")
    if text is None:
        yield Diagnosis(
            "server", "unknown", "INFO is not permitted", "it must be Redis 7.0 or later, or Valkey"
        )
        return
    seen = f"{'Valkey' if valkey else 'Redis'} {text}"
    if valkey is None and _numbers(text) < LEAST:
        yield Diagnosis("server", "fail", seen, "scripts count subscribers, which needs Redis 7.0: upgrade")
    else:
        yield Diagnosis("server", "ok", seen)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
