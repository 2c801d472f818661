"""Crowds keep the laws in every seed: see `judge.py` here. `STAMPEDE_CROWD_SEEDS`: how many seeds.

A rule of the cache is taken away at a time, and the judge must notice.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from stampede_guard.http import judging
from stampede_guard.http.cache import Cache
from stampede_guard.http.fetch import Fetch
from stampede_guard.http.requests.exchange import Exchange
from stampede_guard.http.requests.stored import StoredResponse
from tests.http.fuzz.crowd.drawing import drawn
from tests.http.fuzz.crowd.judge import judged
from tests.http.fuzz.crowd.scenario import play
from tests.support.seeded import drawing_beside

SEEDS = int(os.environ.get("STAMPEDE_CROWD_SEEDS", "60"))
MOST = 600
"""Seeds in which a missing rule must show."""


def test_every_seed_keeps_the_laws_of_a_crowd() -> None:
    shared = 0
    for seed in range(SEEDS):
        crowd, wrong = judged(drawn(seed))
        assert not wrong, f"python -m tests.http.fuzz.crowd {seed}: {wrong[0]}"
        shared += sum("collapsed" in str(visitor.messages[:1]) for visitor in crowd.visitors)
    assert shared


def test_a_seed_plays_the_same_again() -> None:
    first = play(17).journal.lines
    with drawing_beside():
        assert play(17).journal.lines == first


async def _nothing(*_: Any, **__: Any) -> None:
    return None


def _kept_alive(self: Fetch, exchange: Exchange) -> None:
    exchange.go_live()
    if not self.live.done():
        self.live.set_result(exchange)


MISSING: dict[str, tuple[Any, str, Any, str, int]] = {
    "credentials": (judging, "_known_by", lambda *_: frozenset(), "made with a cookie", 29),
    "what may be stored": (judging, "may_store", lambda *_: None, "for one client only", 2),
    "variants": (StoredResponse, "is_for", lambda *_: True, "another cookie", 15),
    "lifetimes": (StoredResponse, "serves_all", lambda *_: True, "s stale", 57),
    "invalidations": (Cache, "invalidate", _nothing, "from before the invalidation", 40),
    "lengths": (Exchange, "is_short", False, "as the whole of", 152),
    "the others": (Exchange, "_serves_others", False, "nobody may stop", 119),
    "the end of what nobody reads": (Fetch, "hand_over", _kept_alive, "never ends", 273),
}


@pytest.mark.parametrize("rule", MISSING)
def test_without_a_rule_the_judge_finds_a_broken_law(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, other, law, known = MISSING[rule]
    monkeypatch.setattr(place, name, other)
    # Begin with the seed that showed it last.
    seeds = [known, *range(MOST)]
    assert any(law in wrong for seed in seeds for wrong in judged(drawn(seed))[1])
