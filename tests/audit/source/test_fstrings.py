"""f-strings of Python 3.12 for an older parser: every place stays, and other texts stay as they are."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stampede_guard.audit import audit_source
from stampede_guard.audit.source.fstrings import older

# Each line is followed by what the older parser reads.
PAIRS = r"""
f"{row["id"]}"
f"{row['id']}"
f'{row['id']}'
f'{row["id"]}'
f"{"\n".join(rows)}" + "b"
f"{(00).join(rows)}" + "b"
f"{row["it's"]:>{w["x"]}}"
f"{row[(0000)]:>{w['x']}}"
f"{f"{row["id"]!r}"}" # "it's
f"{(00000000000000)}" # "it's
f"\N{EM DASH} {{ {row["id"]} }}"
f"\N{EM DASH} {{ {row['id']} }}"
rf"\d{row["id"]}"
rf"\d{row['id']}"
f'''{row['id']} {'\n'.join(rows)}'''
f'''{row['id']} {(00).join(rows)}'''
""".strip().splitlines()


@pytest.mark.parametrize(("newer", "known"), list(zip(PAIRS[::2], PAIRS[1::2], strict=True)))
def test_the_older_text_has_every_place_where_it_was(newer: str, known: str) -> None:
    assert older(newer) == known
    assert len(newer) == len(known)
    ast.parse(known)


@pytest.mark.parametrize("text", ['f"{row["id"', "'", '"""', 'f"{a:{b:{c'])
def test_what_ends_within_a_string_stays(text: str) -> None:
    assert older(text) == text


@pytest.mark.parametrize(
    ("newer", "known"),
    [
        ('f"{\n row["id"]}"', "(0+\n00000000000)"),
        ('f"a{load(\n    {"b": 1},\n)}"', "(0000000+\n000000000000+\n00)"),
        ('f"a{load(\n\n)\n}"', "(0000000+\n\n \n0)"),
        ("f'''{\n row['id']}'''", "f'''{\n row['id']}'''"),
    ],
)
def test_a_field_of_several_lines_becomes_a_sum(newer: str, known: str) -> None:
    assert older(newer) == known
    assert len(newer) == len(known)
    ast.parse(known)


def test_text_that_every_parser_reads_stays() -> None:
    for path in sorted(Path("stampede_guard/audit").rglob("*.py")):
        source = path.read_text()
        assert older(source) == source, path


@given(st.text("f'\"{}\\:!#\n a[]", max_size=40))
def test_any_text_keeps_its_lines_and_its_length(text: str) -> None:
    made = older(text)
    assert len(made) == len(text)
    assert [at for at, letter in enumerate(made) if letter == "\n"] == [
        at for at, letter in enumerate(text) if letter == "\n"
    ]


def test_it_is_linear_and_bounded() -> None:
    for text in ('f"{' * 5_000, "f'{x!r:" * 5_000, '"' * 50_001, 'f"{"' * 5_000):
        assert len(older(text)) == len(text)


def test_a_file_with_such_strings_is_audited() -> None:
    source = b"""from django.core.cache import cache


def rates(row):
    known = cache.get(f"rates:{row["id"]}")
    if known is None:
        known = compute(f"{"\\n".join(row)}")
        cache.set(f"rates:{row["id"]}", known, 60)
    return known
"""
    outcome = audit_source("rates.py", source)
    assert outcome.skipped == []
    assert [(finding.code, finding.line, finding.column) for finding in outcome.findings] == [
        ("SG201", 5, 13)
    ]
    assert sys.version_info >= (3, 12) or older(source.decode()) != source.decode()
