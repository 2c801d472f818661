"""What a seed does. All of it is drawn beforehand; `themes` adds what only some seeds have."""

from __future__ import annotations

from random import Random
from typing import Any

from stampede_guard.policy import Policy
from tests.engine.fuzz.case import BEGIN, Action, Case, Key
from tests.engine.fuzz.network import Weather
from tests.engine.fuzz.themes import themed

__all__ = ["drawn"]


def drawn_weather(chance: Random, guards: tuple[str, ...], length: float) -> Weather:
    grid = chance.choice((0.0, 0.0, 0.05, 0.1))
    usual = chance.choice((0.0, 0.01, 0.05))
    kind = chance.choice(("quick", "slow", "slow", "lossy", "stormy"))
    if kind == "quick":
        return Weather(usual=usual, grid=grid)
    slow, slowness = chance.choice((0.1, 0.2)), chance.choice((0.1, 0.4))
    if kind == "slow":
        return Weather(usual=usual, slow=slow, slowness=slowness, grid=grid)
    shares = {what: chance.choice((0.0, 0.02, 0.1)) for what in ("lost", "unanswered", "refused", "late")}
    windows: list[tuple[float, float, str, str]] = []
    if kind == "stormy":
        for guard in guards:
            at = BEGIN
            for _ in range(chance.randint(0, 3)):
                at += chance.uniform(0.0, length / 2)
                ends = at + chance.choice((0.05, 0.3, 1.0, 3.0)) * chance.random()
                windows.append(
                    (at, ends, guard, chance.choice(("fail", "fail", "refuse", "refuse writes", "deaf")))
                )
                at = ends
    return Weather(usual=usual, slow=slow, slowness=slowness, grid=grid, windows=windows, **shares)


def _fields(chance: Random, theme: str, *, bound: bool) -> dict[str, Any]:
    patience = (0.03, 0.1, 0.3) if theme != "any" else (0.03, 0.1, 0.3, 1.0, 5.0, 30.0)
    fields: dict[str, Any] = {
        "ttl": chance.choice((0.3, 1.0, 5.0)),
        "stale_ttl": chance.choice((0.0, 0.0, 1.0, 10.0)),
        "error_ttl": chance.choice((0.0, 0.2, 1.0)),
        "lease_ttl": chance.choice((0.9, 1.5, 3.0)),
        "takeover_gap": 0.25,
        "poll_interval": chance.choice((0.1, 0.4)),
        "wait_timeout": chance.choice(patience),
        "compute_timeout": chance.choice((0.5, 2.0, 60.0)),
        "fallback_limit": chance.choice((0, 1, 1, 1, 2)),
        "fallback_timeout": chance.choice((0.1, 0.5, 2.0, 25.0, 25.0)),
        "uncacheable_ttl": chance.choice((0.0, 1.0, 10.0)),
        "uncacheable_limit": chance.choice((1, 2, 16)),
        "l1_ttl": chance.choice((0.0, 0.0, 0.5)),
        "early_beta": 0.0 if bound else chance.choice((0.0, 0.0, 1.0, 20.0)),
        "max_passengers": chance.choice((10_000, 10_000, 2)),
        "inline_bytes": chance.choice((0, 16_384)),
        "share": chance.random() < 0.2,
    }
    if fields["stale_ttl"] and chance.random() < 0.4:
        fields["soft_timeout"] = chance.choice((0.05, 0.3))
    Policy(**fields)
    return fields


CALLS = ("get",) * 12 + ("refresh",) * 2 + ("peek",) + ("bypass",) + ("single",)
WRITES = ("invalidate", "invalidate", "invalidate_tag", "set", "set", "write and refresh")


def drawn(seed: int) -> Case:
    return themed(_usual(seed))


def _usual(seed: int) -> Case:
    chance = Random(seed)
    guards = ("A", "B", "C")[: chance.choice((1, 2, 2, 3))]
    length = chance.choice((0.5, 2.0, 6.0))
    weather = drawn_weather(chance, guards, length)
    theme = chance.choice(("any", "any", "any", "tags", "impatient", "outdating"))
    keys: dict[str, Key] = {}
    for name in ("k", "l")[: chance.choice((1, 1, 2))]:
        bound = chance.random() < 0.2
        tags: tuple[str, ...] = (
            ("t",) if theme == "tags" else chance.choice(((), (), ("t",), ("t", f"of {name}")))
        )
        keys[name] = Key(
            name,
            _fields(chance, theme, bound=bound),
            tags,
            chance.random() < 0.15,
            bound,
            chance.random() < 0.2,
        )
    calm = chance.random() < 0.5
    actions = []
    often = chance.choice((4, 8, 14, 25))
    at = 0.0
    longest = chance.choice((0.05, 0.3, 1.0, 4.0))
    failing = chance.choice((0.0, 0.1, 0.5))
    for _ in range(chance.randint(3, often)):
        # Often at the same moment, or just beside it.
        at += (
            chance.choice((0.0, 0.0, 1e-6, 0.05))
            if chance.random() < 0.5
            else chance.uniform(0.0, length / 3)
        )
        guard, key = chance.choice(guards), chance.choice(list(keys))
        if theme == "tags":
            kind = "get" if chance.random() < 0.6 else "invalidate_tag"
        elif theme == "outdating":
            kind = chance.choice(("get", "get", "get", "peek", "invalidate", "set", "refresh"))
        else:
            kind = chance.choice(CALLS if chance.random() < 0.8 else WRITES)
        if not calm and chance.random() < 0.03:
            kind = "close"
        fields: dict[str, Any] = {}
        if chance.random() < 0.2:
            fields["wait_timeout"] = chance.choice((0.01, 0.05, 0.5, 5.0))
        outcome = "value"
        if chance.random() < failing:
            outcome = chance.choice(("error", "error", "cancelled", "exit"))
        before, since = (weather.rounded(chance.uniform(0.0, longest), chance) for _ in range(2))
        after = None
        if not calm and chance.random() < 0.25:
            after = weather.rounded(chance.uniform(0.0, chance.choice((0.1, 1.0))), chance)
        bound = keys[key].bound or kind == "single"
        actions.append(Action(at, guard, key, kind, fields, (before, since), outcome, after, bound))
    return Case(seed, guards, keys, weather, tuple(actions), chance.random() < 0.7, calm)
