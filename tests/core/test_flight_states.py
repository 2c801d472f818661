"""The page of a flight's states is that of the code."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.flight_states import PAGE, diagram, table, transitions
from stampede_guard.core import flight
from stampede_guard.core.commands import Keep
from tests.core.search import Search
from tests.core.setups import ONE_AT_A_TIME, UNSTORABLE
from tests.core.steps import Core
from tests.core.world import Setup


def test_the_page_of_the_states_says_what_the_code_does() -> None:
    page = PAGE.read_text("utf-8")
    assert diagram() in page, "write it anew: python -m scripts.flight_states"
    assert table() in page, "write it anew: python -m scripts.flight_states"


@pytest.mark.parametrize(
    "setup",
    [
        Setup(faults=1, kinds=frozenset({"crash", "lose"}), timed=True),
        Setup(callers=1, demands=1, invalidations=1),
        Setup(callers=1, patients=1, stale_at_start=True),
        Setup(events=1, event_kinds=UNSTORABLE, policy=ONE_AT_A_TIME),
        Setup(callers=1, draws=2),
        Setup(callers=3, bypassed=True),
    ],
    ids=str,
)
def test_the_search_meets_no_step_that_the_page_leaves_out(setup: Setup) -> None:
    known = {(start, end, command) for start, _, end, command in transitions()}
    met: set[tuple[str, str, str]] = set()

    def decide(state: Any, event: Any, policy: Any) -> Any:
        after, command = flight.decide(state, event, policy)
        if not isinstance(command, Keep):
            met.add((type(state.phase).__name__, type(after.phase).__name__, type(command).__name__))
        return after, command

    Search(setup, Core(decide=decide)).run()
    assert met
    assert met <= known
