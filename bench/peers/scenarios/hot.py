"""One process, one stored entry, hit after hit."""

from __future__ import annotations

from bench.peers.scenario import Column, Figures, Scenario
from bench.peers.stage import Stage

__all__ = ["HOT"]


async def play(stage: Stage) -> Figures:
    fleet = await stage.lone_worker()
    try:
        said = await fleet.workers[0].tell(
            "hits",
            repetitions=stage.sizes.hit_repetitions,
            calls=stage.sizes.hit_calls,
            callers=stage.sizes.callers,
        )
    finally:
        await fleet.stop()
    return {name: said[name] for name in ("alone", "together", "shared", "alone_us", "get_us")}


HOT = Scenario(
    name="hot",
    title="Hot hits",
    story="One process and one stored entry, with one caller and with fifty callers of the one key. The figure is hits "
    "per second of the decorated call, as a ratio to a bare `GET` of redis.asyncio that takes turns with it. Some "
    "peers give fifty callers the same dictionary. They save the copies, but each caller can change it for the others.",
    columns=(
        Column(name="alone", title="one caller, x GET", unit="x", better="more"),
        Column(name="together", title="50 callers, x GET", unit="x", better="more"),
        Column(name="shared", title="one object for all callers (1: yes)", unit="count"),
        Column(name="alone_us", title="a hit, us", unit="us"),
        Column(name="get_us", title="that GET, us", unit="us"),
    ),
    play=play,
)
