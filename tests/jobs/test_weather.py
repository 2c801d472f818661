"""Random faults in virtual time: one outcome a slot, whatever happens to workers, network and clocks.

A failing seed plays again: `STAMPEDE_JOB_SEED=17 pytest tests/jobs/test_weather.py`; more seeds with
`STAMPEDE_JOB_SEEDS=10000`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.jobs.fleet import Fleet, virtually
from tests.jobs.weather import DEPLOYED, bad_weather, judge, judge_deploys

SEEDS = int(os.environ.get("STAMPEDE_JOB_SEEDS", "100"))
ONE = os.environ.get("STAMPEDE_JOB_SEED")
PORTIONS = 10


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Thousands of faults, each with its line."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


@pytest.mark.parametrize("portion", range(PORTIONS))
@pytest.mark.parametrize("retry", [False, True], ids=["once", "again"])
def test_each_slot_has_one_outcome_in_any_weather(portion: int, retry: bool) -> None:
    async def scenario(fleet: Fleet) -> None:
        await judge(fleet, await bad_weather(fleet, retry=retry), retry=retry)

    in_each(scenario, portion)


@pytest.mark.parametrize("portion", range(PORTIONS))
@pytest.mark.parametrize("retry", [False, True], ids=["once", "again"])
def test_of_two_deployments_one_schedule_is_followed_in_any_weather(portion: int, retry: bool) -> None:
    async def scenario(fleet: Fleet) -> None:
        calls = await bad_weather(fleet, retry=retry, steps=DEPLOYED)
        await judge_deploys(fleet, calls, retry=retry)

    in_each(scenario, portion)


def in_each(scenario: Callable[[Fleet], Awaitable[None]], portion: int) -> None:
    for seed in [int(ONE)] if ONE else range(portion, SEEDS, PORTIONS):
        try:
            virtually(scenario, seed=seed)
        except Exception as error:
            error.add_note(f"play it again: STAMPEDE_JOB_SEED={seed}")
            raise
