"""Any input, no exception: bytes, text, and pieces of programs in any order, read by every rule."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from stampede_guard.audit import audit, audit_source
from stampede_guard.audit.caching.traces import Traces
from stampede_guard.audit.engine import AuditOptions, AuditResult

ALL = AuditOptions(parse_all=True, least="low")
# Enough for the prefilter of nearly every rule, so that what follows is really looked at.
_WORDS = b"# cache redis lock Lock( set( .set( nx= .get( async def lifespan startup create_task noqa: SG201\n"
_PIECES = (
    *(
        "def f(cache, key):\n",
        "async def g(self):\n",
        "class Cache:\n",
        "    ",
        "        ",
        "\t",
        "\n",
        "\\\n",
        "# noqa: SG201\n",
    ),
    *(
        "found = cache.get(key)",
        "if found is None:",
        "cache.set(key, found)",
        "return found",
        "await ",
        "lambda: ",
    ),
    *(
        "with lock:",
        "async with self.locks[key]:",
        "redis.set('lock', 1, nx=True)",
        "redis.delete('lock')",
        "x = ",
    ),
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        '"""',
        "f'{",
        "'",
        ",",
        ":",
        "@cache.cached(60)\n",
        "@app.get('/')\n",
        "*",
        "**",
        "=",
        "é",
        "\r",
        "\0",
    ),
    *(
        "try:\n",
        "except KeyError:\n",
        "else:\n",
        "match key:\n",
        "case _:\n",
        "for x in y:\n",
        "yield",
        "del cache[key]",
        ":=",
    ),
)


def never_a_failed_rule(outcome: AuditResult) -> None:
    assert outcome.files == 1 and outcome.parsed + len(outcome.skipped) >= 1
    assert not [skipped for skipped in outcome.skipped if "a rule failed" in skipped.reason]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
@example(b"\xef\xbb\xbfx = 1")
@example(b"# -*- coding: utf-16 -*-\nx = 1")
@example(b"\x00")
@example(b"x = " + b"-" * 20_000 + b"1")
@example(b"a" + b".a" * 5_000 + b".get(b)")
@example(b"cache.get(" * 150 + b")" * 150)
def test_no_bytes_raise(data: bytes) -> None:
    never_a_failed_rule(audit_source("fuzz.py", _WORDS + data, ALL))
    never_a_failed_rule(audit_source("fuzz.py", data, ALL))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    never_a_failed_rule(audit_source("fuzz.py", _WORDS + text.encode("utf-8", "replace"), ALL))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(_PIECES), max_size=40))
def test_no_heap_of_pieces_raises(pieces: list[str]) -> None:
    text = "".join(pieces).encode()
    never_a_failed_rule(audit_source("fuzz.py", text, ALL))
    traces = Traces(text)
    assert isinstance(traces.may_fill or traces.may_fill_by_hop or traces.may_flag, bool)
    assert traces.lines() == sorted(traces.lines())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=4))
def test_no_folder_of_bytes_raises(contents: list[bytes]) -> None:
    with TemporaryDirectory() as folder:
        files = [Path(folder, f"m{number}.py") for number in range(len(contents))]
        for path, data in zip(files, contents, strict=True):
            path.write_bytes(data)
        assert audit(map(str, files), jobs=1).files == len(files)
