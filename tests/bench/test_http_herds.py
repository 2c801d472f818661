"""The herd cases beside nginx and Varnish: ours does what each case says, and the judge sees what is wrong."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bench.http.herds.origin import CASES
from bench.http.herds.play import HERD, judged, play, running
from tests.http.suite.play import Answer


@pytest.mark.alone(reason="a herd of 200 requests in one moment")
async def test_ours_does_what_each_case_says() -> None:
    async with running("ours", kills=False) as port:
        # Seconds are not judged here: a busy machine takes its time.
        cases = [{**case, "within": 60} for case in CASES.values() if "kills" not in case]
        played = await asyncio.gather(*(play(case, port) for case in cases))
    assert {one.id: one.wrong for one in played if one.wrong} == {}
    assert next(one.calls for one in played if one.id == "broken-holder") == 2


async def test_ours_survives_the_death_of_the_worker_that_computes() -> None:
    async with running("ours", kills=True) as port:
        played = await play({**CASES["killed-holder"], "within": 60}, port)
    assert played.wrong == ""


def answers(calls: list[int], *, status: int = 200, own: str = "") -> list[Answer]:
    return [Answer(status, [], json.dumps({"call": call, "own": own}).encode()) for call in calls]


@pytest.mark.parametrize(
    ("name", "given", "calls", "seconds", "later", "wrong"),
    [
        ("miss", answers([1] * HERD), 1, 0.4, 0, ""),
        ("miss", answers([1] * HERD), 2, 0.4, 0, "2 calls"),
        ("miss", answers([1] * HERD, status=503), 1, 0.4, 0, "20 not served as expected"),
        ("private", answers(list(range(HERD))), 20, 0.4, 0, ""),
        ("private", answers([1] * HERD), 20, 0.4, 0, "one client's response went to another"),
        ("private", answers(list(range(HERD))), 20, 6.0, 0, "took 6.0 s"),
        ("vary", answers([1] * HERD, own="de"), 2, 0.4, 0, "another variant was served"),
        ("error", answers([1] * HERD, status=500), 1, 0.4, 0, "it was stored"),
        ("error", answers([1] * HERD, status=500), 1, 0.4, 1, ""),
    ],
)
def test_the_judge_sees_what_is_wrong(
    name: str, given: list[Answer], calls: int, seconds: float, later: int, wrong: str
) -> None:
    case: dict[str, Any] = CASES[name]
    fields = case.get("fields", [[]])
    asked = [fields[n % len(fields)] for n in range(HERD)]
    assert judged(case, asked, given, calls, seconds, later) == wrong
