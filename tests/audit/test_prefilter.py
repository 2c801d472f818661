"""What is not parsed or not walked would have changed nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stampede_guard.audit import all_rules, audit, audit_source
from stampede_guard.audit.caching.accesses import accesses
from stampede_guard.audit.caching.naming.methods import METHODS
from stampede_guard.audit.caching.traces import Traces
from stampede_guard.audit.engine import AuditOptions
from stampede_guard.audit.finding import Finding
from stampede_guard.audit.prefilter import Text
from stampede_guard.audit.source.builder import build
from stampede_guard.audit.source.newer import parse
from stampede_guard.audit.source.words import CACHE_STEMS, CACHE_WORDS
from tests.audit.test_engine import FILL
from tests.audit.test_grammar import NOTHINGS, PROTECTIONS, programs

ROOT = Path(__file__).resolve().parents[2]
CASES = sorted((ROOT / "tests" / "audit" / "cases").glob("*/*/*.py"))
OWN = sorted(
    path for folder in ("stampede_guard", "bench", "examples") for path in (ROOT / folder).rglob("*.py")
)


def unfiltered(source: str) -> list[Finding]:
    module = build("x.py", source)
    return sorted(finding for rule in all_rules() for finding in rule.findings(module))


def filtered(source: str) -> list[Finding]:
    outcome = audit_source("x.py", source.encode(), AuditOptions(least="low", unused=False))
    return sorted(outcome.findings)


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_no_finding_of_a_case_is_lost_to_the_prefilter(path: Path) -> None:
    source = path.read_text("utf-8")
    assert filtered(source) == unfiltered(source)


def test_no_finding_of_this_project_is_lost_to_the_prefilter() -> None:
    for path in OWN:
        source = path.read_text("utf-8").replace("noqa", "")
        assert filtered(source) == unfiltered(source), path


@settings(max_examples=100, deadline=None)
@given(programs(st.sampled_from((*NOTHINGS, *PROTECTIONS))))
def test_no_finding_of_a_made_program_is_lost_to_the_prefilter(source: str) -> None:
    assert filtered(source) == unfiltered(source)


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_every_access_leaves_a_trace_in_its_function(path: Path) -> None:
    module = build("x.py", path.read_text("utf-8"))
    lines = Traces(module.source.encode()).lines()
    for function in module.functions:
        if any("write" in access.what for access in accesses(module, function)):
            first, last = function.node.lineno, function.node.end_lineno or 0
            assert any(first <= line <= last for line in lines), function.name


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_the_calls_of_a_name_are_those_among_all_calls(path: Path) -> None:
    source = path.read_text("utf-8")
    every = build("x.py", source).calls
    for name in ("get", "set", "delete", "setdefault"):
        wanted = [(call.lineno, call.col_offset) for call in every if _last(call) == name]
        assert [(call.lineno, call.col_offset) for call in build("x.py", source).calls_of(name)] == wanted
    assert len(every) == sum(isinstance(node, ast.Call) for node in ast.walk(parse(source)))


def _last(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def test_the_tables_of_words_agree() -> None:
    assert all(any(stem in word for stem in CACHE_STEMS) for word in CACHE_WORDS)
    assert set(METHODS.values()) == {"read", "write"}


def test_a_read_and_a_write_in_two_functions_are_no_fill() -> None:
    apart = b"def one(cache):\n    return cache.get(1)\n\ndef two(cache):\n    cache.set(1, 2)\n"
    assert not Traces(apart).may_fill
    assert Traces(FILL).may_fill
    hop = b"def one(cache):\n    return cache.get(1) or two(cache)\n\ndef two(cache):\n    cache.set(1, 2)\n"
    assert not Traces(hop).may_fill and Traces(hop).may_fill_by_hop


def test_a_text_that_looks_like_the_end_of_a_function_does_not_end_it() -> None:
    inside = FILL.replace(b"load_rates()", b'load_rates("""\nselect 1\n""")')
    assert Traces(inside).may_fill
    nested = FILL.replace(b"    if found", b"    def load_rates():\n        return 1\n    if found")
    assert Traces(nested).may_fill


def test_most_files_are_done_with_unparsed_and_a_bad_encoding_is_still_told(tmp_path: Path) -> None:
    files = [tmp_path / f"m{number}.py" for number in range(150)]
    for path in files:
        path.write_bytes(b"# a cache of redis locks: x = cache.get(1)\nx = {}.get(1)\n")
    files[7].write_bytes(FILL)
    files[8].write_bytes(b"x = '\xff'\n")
    outcome = audit(map(str, files), jobs=1)
    assert (outcome.files, outcome.parsed, len(outcome.findings)) == (150, 1, 1)
    assert [Path(skipped.path).name for skipped in outcome.skipped] == ["m8.py"]


def test_a_word_is_looked_for_once() -> None:
    text = Text(b"x = 1")
    assert not text.has_any((b"fastapi_cache", b"aiocache")) and not text.has_any((b"aiocache",))
    assert Text(b"import aiocache").has_any((b"aiocache",))
