"""A case, judged; many of them; and the smallest case with the same violation."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

from tests.engine.fuzz.case import Case
from tests.engine.fuzz.drawing import drawn
from tests.engine.fuzz.judge import Judge
from tests.engine.fuzz.play import play
from tests.engine.fuzz.scenario import Fleet

__all__ = ["fuzz", "judged", "shrunk"]


def judged(case: Case) -> tuple[Fleet, list[str]]:
    fleet = play(case)
    return fleet, list(Judge(case, fleet.journal).violations())


def fuzz(first: int, *, seconds: float) -> list[str]:
    """The violations of as many seeds as fit into these seconds."""
    found, ends = [], time.monotonic() + seconds
    for seed in itertools.count(first):
        if time.monotonic() >= ends:
            return [f"seed {each}: {wrong}" for each, wrong in found]
        found += [(seed, wrong) for wrong in judged(drawn(seed))[1]]
    raise AssertionError("never here")


def _kind_of(violation: str) -> str:
    return "".join(letter for letter in violation if letter.isalpha() or letter == " ")[:28]


def shrunk(case: Case, wrong: str) -> Case:
    """The case without the actions that the violation does not need."""
    kind, smaller = _kind_of(wrong), True
    while smaller:
        smaller = False
        for place in range(len(case.actions)):
            less = replace(case, actions=case.actions[:place] + case.actions[place + 1 :])
            if any(_kind_of(each) == kind for each in judged(less)[1]):
                case, smaller = less, True
                break
    return case
