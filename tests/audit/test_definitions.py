"""A function found in unparsed text never ends before the function that the parser finds."""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.files.definitions import Definitions
from stampede_guard.audit.source.newer import parse
from tests.audit.test_prefilter import CASES, OWN

UNINDENTED = '''
def report():
    text = """
unindented
"""
    return cache.get(text)


async def sums(
    day,
):
    # a comment further out is no end
# like this one
    try:
        return await ask(day)
    except KeyError:
        pass


class Rates:
    @cached
    @other(
        60,
    )
    async def of(self, day):
        def inner():
            yield day

        return inner

    NAMES = ()
'''


def bytes_of(source: str) -> list[tuple[int, int]]:
    """The functions of the parser that lie in no other one, in bytes."""
    lines = [0]
    for line in source.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    found = [
        (
            lines[node.lineno - 1] + node.col_offset,
            lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0),
        )
        for node in ast.walk(parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [one for one in found if not any(other[0] < one[0] < other[1] for other in found)]


def test_no_function_ends_too_early() -> None:
    for path in (*CASES, *OWN):
        source = path.read_text("utf-8")
        spans = Definitions(source.encode()).outermost
        for start, end in bytes_of(source):
            assert any(span.start <= start and end <= span.end for span in spans), (path, start)


def test_unindented_text_in_quotes_does_not_end_a_function() -> None:
    found = Definitions(UNINDENTED.encode())
    assert [UNINDENTED[start:end].partition("(")[0] for start, end in bytes_of(UNINDENTED)] == [
        "def report",
        "async def sums",
        "async def of",
    ]
    for start, end in bytes_of(UNINDENTED):
        assert any(span.start <= start and end <= span.end for span in found.outermost)
    assert found.share(re.compile(rb"unindented"), re.compile(rb"cache\.get"))


def test_what_two_functions_contain_is_not_shared() -> None:
    found = Definitions(b"def one():\n    ask()\n\n\ndef other():\n    answer()\n")
    assert not found.share(re.compile(rb"ask"), re.compile(rb"answer"))
    assert found.share(re.compile(rb"answer"), re.compile(rb"other"))


def test_a_decorator_belongs_to_the_next_function() -> None:
    found = Definitions(UNINDENTED.encode())
    (span,) = found.under(re.compile(rb"@[ \t]*cached\b"))
    assert span.is_async
    assert b"yield" in found.data[span.start : span.end]
    assert not list(found.under(re.compile(rb"@nothing")))
