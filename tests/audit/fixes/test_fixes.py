"""Each fix on real files: `cases/CODE/safe/*/before.py` becomes `after.py`, and the same for unsafe; none stays.

Formatting and comments are held letter by letter.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stampede_guard.audit import Finding, all_rules, audit_source
from stampede_guard.audit.engine import AuditOptions
from stampede_guard.audit.fixing.files import fixed

CASES = Path(__file__).resolve().parents[1] / "cases"
FIXED = sorted(path.parent for path in CASES.glob("*/*safe/*/before.py"))
UNFIXED = sorted(path.parent for path in CASES.glob("*/none/*/before.py"))
# A decorator in its right place may be one to be replaced: both are asked for.
TOGETHER = {"SG109": {"SG101", "SG109"}}


def name(case: Path) -> str:
    return "-".join(case.parts[-3:])


def found(case: Path, data: bytes) -> list[Finding]:
    code = case.parts[-3]
    codes = frozenset(TOGETHER.get(code, {code}))
    outcome = audit_source(f"{case.name}.py", data, AuditOptions(codes=codes, least="low"))
    assert outcome.skipped == []
    return outcome.findings


def mended(case: Path, data: bytes, *, unsafe: bool) -> bytes:
    wanted = {(finding.code, finding.function) for finding in found(case, data)}
    return fixed(f"{case.name}.py", data, wanted, unsafe=unsafe).after


@pytest.mark.parametrize("case", FIXED, ids=name)
def test_a_fix_writes_what_a_person_would_have_written(case: Path) -> None:
    before, after = (case / "before.py").read_bytes(), (case / "after.py").read_bytes()
    unsafe = case.parts[-2] == "unsafe"
    assert mended(case, before, unsafe=unsafe).decode() == after.decode()
    assert found(case, after) == []


@pytest.mark.parametrize("case", FIXED, ids=name)
def test_a_fixed_file_is_not_fixed_again(case: Path) -> None:
    after = (case / "after.py").read_bytes()
    assert mended(case, after, unsafe=True) == after


@pytest.mark.parametrize("case", [c for c in FIXED if c.parts[-2] == "unsafe"], ids=name)
def test_an_unsafe_fix_is_made_only_on_request(case: Path) -> None:
    before = (case / "before.py").read_bytes()
    assert mended(case, before, unsafe=False) == before
    assert not any(finding.fixable for finding in found(case, before))
    assert any(finding.fix == "unsafe" for finding in found(case, before))


@pytest.mark.parametrize("case", UNFIXED, ids=name)
def test_what_cannot_be_mended_is_reported_and_left_alone(case: Path) -> None:
    before = (case / "before.py").read_bytes()
    findings = found(case, before)
    assert findings and all(finding.fix is None for finding in findings)
    assert mended(case, before, unsafe=True) == before


def test_the_rules_say_which_fixes_they_have() -> None:
    shown = {(path.parts[-3], path.parts[-2]) for path in FIXED}
    assert shown == {(rule.code, safety) for rule in all_rules() for safety in rule.fixes}
    for rule in all_rules():
        assert bool(rule.fixes) == (rule.fix is not None), rule.code
        text = rule.documentation.fix
        if not rule.fixes:
            assert re.fullmatch(r"No automatic fix: [\w`].{20,}\.", text), rule.code
        assert ("Safe" in text) == ("safe" in rule.fixes), rule.code
        assert ("Unsafe" in text) == ("unsafe" in rule.fixes), rule.code
