"""Results of earlier runs are served only where nothing has changed, and never break a run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stampede_guard.audit import engine, results
from stampede_guard.audit.command import main
from stampede_guard.audit.engine import AuditOptions, AuditResult, audit
from tests.audit.test_engine import FILL as FILL_BYTES

FILL = FILL_BYTES.decode()


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were parsed."""
    seen: list[str] = []
    build = engine.build

    def counted(path: str, source: str):  # type: ignore[no-untyped-def]
        seen.append(path)
        return build(path, source)

    monkeypatch.setattr(engine, "build", counted)
    return seen


def run(place: Path, kept: Path, **options: object) -> AuditResult:
    return audit([str(place)], AuditOptions(cache_dir=str(kept), **options), jobs=1)  # type: ignore[arg-type]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "shop" / "app" / "fill.py"
    made.parent.mkdir(parents=True)
    made.write_text(FILL, "utf-8")
    return made


def entries(kept: Path) -> list[Path]:
    return sorted(kept.rglob("*.json"))


def test_an_unchanged_file_is_not_parsed_again(tmp_path: Path, place: Path, parses: list[str]) -> None:
    first, second = run(place, tmp_path / "kept"), run(place, tmp_path / "kept")
    assert first == second and first.findings
    assert len(parses) == 1
    assert (tmp_path / "kept" / ".gitignore").read_text() == "*\n"


def test_other_bytes_or_options_are_another_entry(tmp_path: Path, place: Path, parses: list[str]) -> None:
    run(place, tmp_path / "kept")
    run(place, tmp_path / "kept", codes=frozenset(("SG205",)))
    place.write_text("\n" + FILL, "utf-8")
    assert run(place, tmp_path / "kept").findings[0].line != run(place, tmp_path / "kept").findings[0].column
    assert len(parses) == 3


def test_another_version_of_the_audit_computes_anew(
    tmp_path: Path, place: Path, parses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(place, tmp_path / "kept")
    monkeypatch.setattr(results, "_code", lambda: "another")
    engine._results.cache_clear()
    run(place, tmp_path / "kept")
    engine._results.cache_clear()
    assert len(parses) == 2


def test_a_followed_file_that_changes_or_appears_counts(tmp_path: Path) -> None:
    views = tmp_path / "shop" / "views.py"
    views.parent.mkdir()
    views.write_text('from shop.kept import cache\n@cache(ttl="1h")\nasync def rate():\n    ...\n', "utf-8")
    assert run(views, tmp_path / "kept").findings == []
    setup = views.with_name("kept.py")
    setup.write_text("from cashews import cache\n", "utf-8")
    assert [found.code for found in run(views, tmp_path / "kept").findings] == ["SG103"]
    setup.write_text("from functools import cache\n", "utf-8")
    assert run(views, tmp_path / "kept").findings == []


@pytest.mark.parametrize("rubbish", [b"", b"{", b"[]", b"null", b'{"key": 1}', b"\xff", b"[" * 90_000])
def test_a_spoilt_entry_is_computed_anew(tmp_path: Path, place: Path, rubbish: bytes) -> None:
    first = run(place, tmp_path / "kept")
    (entry,) = entries(tmp_path / "kept")
    sound = entry.read_bytes()
    entry.write_bytes(rubbish)
    assert run(place, tmp_path / "kept") == first
    assert entry.read_bytes() == sound


def test_a_folder_that_cannot_be_written_costs_nothing_but_the_cache(tmp_path: Path, place: Path) -> None:
    (tmp_path / "kept").write_text("a file", "utf-8")
    assert run(place, tmp_path / "kept").findings


def test_the_oldest_half_is_removed(tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "ENTRIES", 4)
    for turn in range(6):
        place.write_text(FILL + "\n" * turn, "utf-8")
        run(place, tmp_path / "kept")
    run(place, tmp_path / "kept")
    assert len(entries(tmp_path / "kept")) <= 4


def test_parallel_runs_share_a_folder(tmp_path: Path, place: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: run(place, tmp_path / "kept").findings, range(12)))
    assert all(each == found[0] for each in found)
    assert len(entries(tmp_path / "kept")) == 1


def test_the_command_keeps_results_unless_told_not_to(tmp_path: Path, place: Path) -> None:
    kept = tmp_path / "kept"
    assert main([str(place), "--cache-dir", str(kept), "--no-cache", "--no-config"]) == 1
    assert not kept.exists()
    assert main([str(place), "--cache-dir", str(kept), "--no-config"]) == 1
    assert entries(kept)
