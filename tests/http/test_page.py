"""The page of the HTTP cache names tests that are there, and every option of the middleware and of a route."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from stampede_guard import CacheRoute
from stampede_guard.http.requests.settings import Settings

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "http.md").read_text("utf-8")


def test_each_trap_on_the_page_has_its_test() -> None:
    rows = [line for line in PAGE.partition("## Traps")[2].splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 25
    for row in rows:
        named = re.findall(r"`(?:([a-z_/]+)\.)?([a-z_0-9]+|\*)`", row.rsplit("|", 2)[1])
        assert named, row
        place = ""
        for module, name in named:
            place = module or place
            folder, _, file = place.rpartition("/")
            text = (HERE / folder / f"test_{file}.py").read_text("utf-8")
            assert name == "*" or f"def test_{name}(" in text, (place, name)


def test_each_option_is_on_the_page() -> None:
    options = [field.name for field in dataclasses.fields(Settings) if field.init] + [
        field.name for field in dataclasses.fields(CacheRoute) if field.init
    ]
    for name in options:
        if name not in ("routes", "clock"):
            assert f"`{name}`" in PAGE or f"`{name}=" in PAGE, name
