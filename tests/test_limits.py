"""docs/guarantees.md says what the code does, and what is beyond a limit is refused."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from stampede_guard import Misuse, StampedeGuard
from stampede_guard.api.keyed.plans import LONGEST_KEY
from stampede_guard.stores.memory import MemoryStore

PAGE = Path(__file__).resolve().parent.parent / "docs" / "guarantees.md"
TABLE = PAGE.read_text("utf-8").partition("\n## Limits")[2].partition("\n### ")[0]
ROWS = re.findall(r"^\| [^|]+ \| (\d+) \| `([\w.]+)` \| [^|]+ \|$", TABLE, re.MULTILINE)


def test_the_page_has_a_table() -> None:
    assert len(ROWS) == len([line for line in TABLE.splitlines() if line.startswith("| ")]) - 1 > 40


@pytest.mark.parametrize(("most", "where"), ROWS)
def test_the_page_says_the_limit_that_the_code_has(most: str, where: str) -> None:
    module, _, name = where.rpartition(".")
    limit: Any = getattr(importlib.import_module(f"stampede_guard.{module}"), name)
    if isinstance(limit, re.Pattern):
        assert limit.fullmatch("x" * int(most)) and not limit.fullmatch("x" * (int(most) + 1))
    else:
        assert limit == int(most)


async def test_a_key_that_is_too_long_or_none_is_refused_wherever_it_is_given() -> None:
    guard = StampedeGuard(MemoryStore())

    async def compute() -> int:
        return 1

    assert await guard.get_or_compute("k" * LONGEST_KEY, compute) == 1
    wrong: Any
    for wrong in ("k" * (LONGEST_KEY + 1), "", 7, None):
        with pytest.raises(Misuse, match="1 to 512 characters"):
            await guard.get_or_compute(wrong, compute)
        with pytest.raises(Misuse, match="1 to 512 characters"):
            await guard.invalidate(wrong)
        with pytest.raises(Misuse, match="1 to 512 characters"):
            guard.single(wrong)
    await guard.aclose()


@pytest.mark.parametrize("namespace", ["", "n" * 65, "a b", "{a}", "a*"])
def test_a_namespace_that_cannot_be_one_is_refused(namespace: str) -> None:
    with pytest.raises(Misuse, match="1 to 64 letters"):
        StampedeGuard(MemoryStore(), namespace=namespace)


@pytest.mark.parametrize("option", [{"name": "n" * 201}, {"version": "v" * 201}, {"name": 7}])
def test_a_name_or_version_that_is_too_long_is_refused_at_decoration(option: dict[str, Any]) -> None:
    with pytest.raises(Misuse, match="at most 200 characters"):

        @StampedeGuard(MemoryStore()).locked_cache(**option)
        async def quality() -> int:
            return 1
