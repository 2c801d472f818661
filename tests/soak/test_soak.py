"""The soak for some seconds, and the judge on a library without one of its rules.

`make soak` runs it for longer.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from stampede_guard.engine.loops.invalidating import Invalidating
from tests.soak.conductor import soak
from tests.soak.faults import STORES
from tests.soak.journal import Call
from tests.soak.judge import Violation
from tests.soak.memory import soak_in_memory
from tests.soak.mutants import MUTANTS

SECONDS = 30.0
ATTEMPTS = 20
"""The first that the judge finds is enough. On a slow machine few calls meet the fault."""


@pytest.mark.parametrize("store", STORES)
async def test_nothing_that_was_promised_is_broken_under_faults(store: str, tmp_path: Path) -> None:
    report = await soak(tmp_path, store=store, seconds=SECONDS, seed=20)
    assert not report.violations, str(report)
    assert sum(report.faults.values()) >= 3 and report.computations > 50, str(report)
    assert report.outcomes["value"] > 0.5 * report.calls, str(report)


def test_nothing_that_was_promised_is_broken_over_several_event_loops(tmp_path: Path) -> None:
    violations, events = soak_in_memory(tmp_path, seconds=SECONDS / 2, seed=20)
    assert not violations, "\n".join(map(str, violations))
    assert sum(isinstance(event, Call) and event.outcome == "value" for event in events) > 500


def test_the_judge_finds_that_other_event_loops_are_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Invalidating, "_tell_others", lambda *_: None)
    violations: list[Violation] = []
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        found, _ = soak_in_memory(folder, seconds=10.0, seed=attempt)
        violations += found
        if violations:
            break
    assert {violation.rule for violation in violations} & {"own", "old"}


@pytest.mark.parametrize("name", MUTANTS)
async def test_the_judge_finds_the_rule_that_is_missing(name: str, tmp_path: Path) -> None:
    mutant = MUTANTS[name]
    found: set[str] = set()
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        report = await soak(
            folder,
            store="valkey",
            seconds=6.0,
            seed=attempt,
            mutant=name,
            only=mutant.faults,
            quiet=(0.5, 1.0),
        )
        found = {violation.rule for violation in report.violations}
        if found & set(mutant.found_by):
            break
    assert found & set(mutant.found_by), str(report)
