"""examples/audited_app: what the pages show of it is what the audit says, and the herd goes as they tell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.audited_app import APP, BEGIN, PAGES, ROOT, copied, filled, herds, program, said

_HERD = re.compile(r"(\S+): (\d+) callers in (\d+) processes, computed (\d+) times\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_pages_show_what_the_audit_says(page: Path) -> None:
    text = page.read_text("utf-8")
    shown = {name for name in said() if BEGIN.format(name=name) in text}
    assert "summary" in shown and shown & {"diff", "part of the diff"}
    for name, (output, language) in said().items():
        assert filled(text, name, output, language) == text, "write it anew: python -m scripts.audited_app"


def test_fourteen_endpoints_share_the_pattern_the_dearest_first() -> None:
    lines = said()["summary"][0].splitlines()
    assert lines[0] == "SG101 fastapi-cache-unlocked: 14 endpoints share this pattern"
    assert "(model)" in lines[1] and "(HTTP)" in lines[2] and "(SQL)" in lines[3]


def test_what_is_safe_to_fix_is_fixed_and_the_rest_is_reported() -> None:
    with copied() as folder:
        left = program(
            "-m", "stampede_guard.audit", APP, "--fix", "--output-format", "concise", folder=folder
        )
        assert sorted(re.findall(r" (SG\d+) ", left)) == ["SG201", "SG402", "SG403"]
        assert program("-m", "stampede_guard.audit", APP, "--fix", "--diff", folder=folder) == ""
        everything = program(
            *("-m", "stampede_guard.audit", APP, "--fix", "--unsafe-fixes", "--output-format", "concise"),
            folder=folder,
        )
        assert sorted(re.findall(r" (SG\d+) ", everything)) == ["SG402"]


def test_forty_callers_compute_forty_times_before_the_fix_and_once_after() -> None:
    before, after = (_HERD.fullmatch(line) for line in herds())
    assert before is not None and after is not None
    callers = int(before[2])
    # A process that is late by a whole query finds the value: most are not.
    assert callers // 2 < int(before[4]) <= callers
    assert int(after[4]) == 1
    for page in PAGES:
        text = page.read_text("utf-8")
        assert f"before  {before[1]}: {callers} callers in 8 processes, computed {callers} times\n" in text
        assert f"after   {after[0]}" in text
