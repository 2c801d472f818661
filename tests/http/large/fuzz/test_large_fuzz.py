"""Large bodies keep their laws in every seed: see `judge.py` here. `STAMPEDE_LARGE_SEEDS`: how many seeds.

More of them: `make soak SOAK_ARGS="--store large --seconds 600"`.
"""

from __future__ import annotations

import os

from tests.http.large.fuzz.drawing import drawn
from tests.http.large.fuzz.judge import judged
from tests.http.large.fuzz.scenario import play
from tests.support.seeded import drawing_beside

SEEDS = int(os.environ.get("STAMPEDE_LARGE_SEEDS", "200"))


def test_every_seed_keeps_the_laws_of_large_bodies() -> None:
    called = 0
    for seed in range(SEEDS):
        fleet, wrong = judged(drawn(seed))
        assert not wrong, f"python -m tests.http.large.fuzz {seed}: {wrong[0]}"
        called += len(fleet.calls)
    assert called


def test_a_seed_plays_the_same_again() -> None:
    first = play(17).journal.lines
    with drawing_beside():
        assert play(17).journal.lines == first
