"""One function: its calls and durations over time, changes of its mode, its policy with reasons, its hottest keys."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stampede_guard.ops.console.fleet import KEPT_SLOTS
from stampede_guard.ops.console.screen import Asked, ConsoleScreen, Parameter
from stampede_guard.ops.console.screens.functions import MODE, row_of
from stampede_guard.policy import policy
from stampede_guard.stores.fleet.series import WATCHED
from stampede_guard.stores.fleet.stream import PROCESS_BEGAN
from stampede_guard.stores.fleet.sums import FunctionSums, sums_of
from stampede_guard.stores.switch import EVERYTHING, LONGEST_TITLE

if TYPE_CHECKING:
    from stampede_guard.ops.console.fleet import Fleet
    from stampede_guard.stores.fleet.stream import Happening

__all__ = ["SCREEN", "marks_of"]

_ROW = re.compile(r"^\| `(\w+)` \|([^|]*)\|([^|]*)\|([^|]*)\|$", re.MULTILINE)
MOST_FAULTS = 12
FAULTS = frozenset(("taken over", "lapsed", "fallback", "timed out", "not stored", "operator"))


async def data(fleet: Fleet, asked: Asked) -> dict[str, Any]:
    title = asked["name"]
    seen = await fleet.now()
    switches = await (await fleet.reached()).steps.switches(fleet.namespace)
    slots = await fleet.slots()
    lines = await fleet.happened(most=1000)
    here = {} if fleet.guard is None else fleet.guard.policies()
    policies = [here[title]] if title in here else await fleet.policies_of(title)
    happened = [one for one in lines if one.function in (title, EVERYTHING)]
    return {
        "seconds": seen.seconds,
        "function": row_of(title, seen, switches),
        "history": _history(slots, title),
        "marks": marks_of(slots, happened, lines),
        "policy": None if not policies else _policy(policies),
        "published": title not in here,
        "hottest": [{"key": hot.key, "calls": seen.rate(hot.calls)} for hot in seen.hottest_of(title)],
        "happened": [
            {"at": one.at, "kind": one.kind, "key": one.key, "process": one.process, "detail": one.detail}
            for one in reversed([one for one in happened if one.kind in FAULTS][-MOST_FAULTS:])
        ],
    }


def _history(slots: Mapping[int, Mapping[bytes, bytes]], title: str) -> dict[str, Any]:
    """Per slot, oldest first: rates per second, and histograms. A rate is None where no viewer was open."""
    newest = max(slots, default=0)
    found: dict[str, Any] = {name: [] for name in ("hits", "stale", "misses", "computations", "failed")}
    took: list[list[int]] = []
    waited: list[list[int]] = []
    for slot in range(newest - KEPT_SLOTS + 1, newest + 1):
        fields = slots.get(slot)
        row = (sums_of(fields, title) or FunctionSums()) if fields else None
        for name, numbers in found.items():
            numbers.append(None if row is None else getattr(row, name) / WATCHED.seconds)
        took.append((row or FunctionSums()).took)
        waited.append((row or FunctionSums()).waited)
    return {**found, "took": took, "waited": waited}


def marks_of(
    slots: Mapping[int, Any], happened: Sequence[Happening], lines: Sequence[Happening]
) -> list[tuple[int, str]]:
    """Changes of the mode, and the beginnings of processes: index of the slot, and what it was.

    `happened`: of this function. `lines`: of the whole fleet.
    """
    first = max(slots, default=0) - KEPT_SLOTS + 1
    born = Counter(int(one.at // WATCHED.seconds) - first for one in lines if one.kind == PROCESS_BEGAN)
    began = [(slot, f"{many} process{'es' if many > 1 else ''} began") for slot, many in sorted(born.items())]
    return began + [
        (int(one.at // WATCHED.seconds) - first, f"{one.detail.get('user')}: {one.detail.get('said')}")
        for one in happened
        if one.kind == "operator" and one.detail.get("what") == "mode"
    ]


def _policy(policies: Sequence[policy.Policy]) -> list[dict[str, Any]]:
    """Each field: its value, whether the function or its guard sets it, and the reason of the default.

    `policies`: the newest first. Values of the others that differ are in `others`.
    """
    reasons = {name: why.strip() for name, _, _, why in _ROW.findall(inspect.getdoc(policy) or "")}
    default, mine = policy.Policy(), policies[0]
    return [
        {
            "field": field.name,
            "value": getattr(mine, field.name),
            "set": getattr(mine, field.name) != getattr(default, field.name),
            "others": [
                value
                for value in dict.fromkeys(getattr(one, field.name) for one in policies[1:])
                if value != getattr(mine, field.name)
            ],
            "reason": reasons.get(field.name, ""),
        }
        for field in dataclasses.fields(policy.Policy)
    ]


SCREEN = ConsoleScreen(
    "function",
    "Function",
    "One function over time.",
    data,
    (Parameter("name", "Its name.", longest=LONGEST_TITLE, required=True),),
    (MODE,),
    listed=False,
    below="functions",
)
