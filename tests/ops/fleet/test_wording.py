"""One of a thing is not many."""

from __future__ import annotations

import pytest

from stampede_guard.ops.fleet.wording import counted


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (1, ("caller",), "1 caller"),
        (0, ("caller",), "0 callers"),
        (2, ("entry", "entries"), "2 entries"),
        (1, ("entry", "entries"), "1 entry"),
    ],
)
def test_things_are_counted(number: int, words: tuple[str, ...], said: str) -> None:
    assert counted(number, *words) == said
