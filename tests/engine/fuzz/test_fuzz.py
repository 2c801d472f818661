"""The engine keeps its laws in every seed, and not without its rules.

Answers of the store, messages, time-outs, steps of computations, cancellations and invalidations come at any moment.
Commands and their answers are lost, late or refused; the store or one of its nodes goes away, guards are deaf or are
closed. A process has one event loop or several. See `tests/engine/fuzz/judge.py` for the laws.

`STAMPEDE_FUZZ_SEEDS`: how many seeds. More of them: `make soak SOAK_ARGS="--store engine --seconds 600"`. Real threads:
`python -m tests.engine.fuzz threads 0-999`.
"""

from __future__ import annotations

import os
from unittest import mock

import pytest

from stampede_guard.values.ownerrors import OWN_ERRORS
from tests.engine.fuzz.drawing import drawn
from tests.engine.fuzz.mutants import MUTANTS, mutated
from tests.engine.fuzz.play import play
from tests.engine.fuzz.shrinking import judged
from tests.support.seeded import drawing_beside

SEEDS = int(os.environ.get("STAMPEDE_FUZZ_SEEDS", "300"))
PARTS = 4


def test_errors_that_another_test_kept_do_not_count_as_left_by_a_fleet() -> None:
    OWN_ERRORS.keep("another:k", "1", LookupError(), 3600, clock=lambda: 0.0, loop=mock.Mock())
    assert judged(drawn(0))[1] == []


@pytest.mark.parametrize("part", range(PARTS))
def test_every_seed_keeps_the_laws(part: int) -> None:
    computed = 0
    for seed in range(part, SEEDS, PARTS):
        fleet, wrong = judged(drawn(seed))
        assert not wrong, f"python -m tests.engine.fuzz {seed}: {wrong[0]}"
        computed += len(fleet.journal.computations)
    assert computed


@pytest.mark.parametrize("name", MUTANTS)
def test_a_rule_that_is_taken_out_is_missed(name: str) -> None:
    first = MUTANTS[name].seed
    with mutated(name):
        for seed in (first, *range(first + 30)):
            if judged(drawn(seed))[1]:
                return
    pytest.fail(f"{name}: not caught")


def test_a_seed_plays_the_same_again() -> None:
    first = play(17).journal.lines
    with drawing_beside():
        assert play(17).journal.lines == first
