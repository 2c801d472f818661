"""A fix gives a function new keys. So there is none if another file speaks of the old ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stampede_guard.audit import all_rules, audit_source
from stampede_guard.audit.command import FORMATS, main
from stampede_guard.audit.fixing.files import fixed

SALES = b"""from django.core.cache import cache


def sales(shop) -> int:
    known = cache.get("shop-sales:%d" % shop.id)
    if known is not None:
        return known
    found = count(shop)
    cache.set("shop-sales:%d" % shop.id, found, 60)
    return found
"""


DELETED = 'cache.delete("shop-sales:%d" % shop.id)\n'


@pytest.mark.parametrize(
    ("before", "other", "written", "refused"),
    [
        (SALES, 'cache.delete("shop-orders:%d" % shop.id)\n', b"@locked_cache", 0),
        (SALES, DELETED, b"with fill_lock", 0),
        (SALES + b"\n\nfill_lock = None\n", DELETED, b"", 1),
    ],
)
def test_a_key_that_another_file_names_stays(
    tmp_path: Path, before: bytes, other: str, written: bytes, refused: int
) -> None:
    path, second = tmp_path / "sales.py", tmp_path / "signals.py"
    path.write_bytes(before)
    second.write_text(other)
    wanted = {(finding.code, finding.function) for finding in audit_source(str(path), before).findings}
    made = fixed(str(path), before, wanted, unsafe=True, files=[str(path), str(second)])
    assert len(made.refused) == refused and (made.after == before) == bool(refused)
    assert written in made.after
    assert all("another file uses keys with 'shop-sales:'" in reason for *_key, reason in made.refused)


@pytest.mark.parametrize(
    ("before", "fix", "reason"),
    [
        (SALES, "unsafe", "a miss asks the cache twice"),
        (SALES + b"\n\nfill_lock = None\n", None, "another file uses keys with 'shop-sales:'"),
    ],
)
def test_a_report_says_so_before_somebody_asks_for_the_fix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: bytes, fix: str | None, reason: str
) -> None:
    (tmp_path / "sales.py").write_bytes(before)
    (tmp_path / "signals.py").write_text(DELETED)
    arguments = [str(tmp_path), "--no-config", "--select", "SG201", "--cache-dir", str(tmp_path / "kept")]
    for _ in range(2):  # the second time from kept results
        main([*arguments, "--output-format", "json"])
        [finding] = json.loads(capsys.readouterr().out)["findings"]
        assert finding["fix"] == fix
        assert reason in "; ".join([*finding["fix_reasons"], finding["no_fix"]])
        assert not {"private", "key", "otherwise"} & finding.keys()
    main([*arguments, "--fix", "--unsafe-fixes", "--diff"])
    assert ("fill_lock" in capsys.readouterr().out) == (fix is not None)


def test_a_rule_without_fixes_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = {
        rule.code: rule.documentation.fix.removeprefix("No automatic fix: ").rstrip(".")
        for rule in all_rules()
        if rule.fix is None
    }
    assert {"SG104", "SG105", "SG106", "SG108", "SG202", "SG204", "SG401", "SG405"} <= told.keys()
    (tmp_path / "sales.py").write_text(
        "async def sales(day):\n    known = await get_cached_sales(day)\n    if known is None:\n"
        "        known = await count(day)\n        await set_cached_sales(day, known)\n    return known\n"
    )
    for name in FORMATS:
        main([str(tmp_path), "--no-config", "--select", "SG202", "--output-format", name])
        assert told["SG202"] in capsys.readouterr().out, name
