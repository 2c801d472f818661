"""Each pair of the pages about other caches: the same calls, the same answers, and as many computations."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from bench.herd.valkey import ValkeyServer
from tests.migrating.pairs import pairs
from tests.migrating.plays import PLAYS
from tests.support import forked


def test_each_pair_of_the_pages_is_played() -> None:
    assert pairs().keys() == PLAYS.keys()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("section", PLAYS)
def test_the_same_calls_get_the_same_answers_and_compute_as_often(
    section: str, when: str, own_valkey: ValkeyServer, tmp_path: Path
) -> None:
    play = PLAYS[section]
    answers, computed, crowd = _result(section, when, own_valkey.url, tmp_path)
    assert (answers, computed) == (play.answers, play.computed)
    assert crowd == (play.crowd_before if when == "before" else 1)


def _result(section: str, when: str, url: str, folder: Path) -> Any:
    log = folder / "log"
    child = forked.start("tests.migrating.program", section, when, url, log=log)
    try:
        assert child.process.wait(120) == 0, child.last_words(lines=60)
    finally:
        child.kill()
    return ast.literal_eval(log.read_text().splitlines()[-1])
