"""Where functions begin and end in unparsed text.

Mistakes go one way only: a function may seem to end too late, and never too early. So a function ends where a line that
is not further in begins another definition. Other statements do not end it: they may be the rest of an expression.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

# Where a definition begins, and with it the block before may end. A decorator belongs to the next one.
_BEGINS = re.compile(rb"[\n\r]([ \t\f]*)(?:(async[ \t\f\\]+)?(def)\b|async[ \t]*\\|class\b|@)")
_MARKS = re.compile(rb"\"\"\"|'''")
_LONGEST = 2_000  # bytes of a line before such a mark
_ANY = (b'"', b"'")


@dataclass(frozen=True)
class FunctionText:
    """A function from `def` to its end, in bytes."""

    start: int
    end: int
    is_async: bool


class Definitions:
    """The functions of a text."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def share(self, one: re.Pattern[bytes], other: re.Pattern[bytes]) -> bool:
        """Whether one function contains both."""
        return any(
            one.search(self.data, span.start, span.end) and other.search(self.data, span.start, span.end)
            for span in self.outermost
        )

    def under(self, decorator: re.Pattern[bytes]) -> Iterator[FunctionText]:
        """The functions below such a line."""
        given: set[int] = set()
        for line in decorator.finditer(self.data):
            index = bisect_left(self._starts, line.end())
            if index < len(self._spans) and index not in given:
                given.add(index)
                yield self._spans[index]

    @cached_property
    def outermost(self) -> list[FunctionText]:
        found: list[FunctionText] = []
        for span in self._spans:
            if not found or span.start >= found[-1].end:
                found.append(span)
        return found

    @cached_property
    def _starts(self) -> list[int]:
        return [span.start for span in self._spans]

    @cached_property
    def _spans(self) -> list[FunctionText]:
        """All functions, by their beginnings. If it is unclear what is text, each lasts to the end
        and may be `async`.
        """
        data = b"\n" + self.data
        quoted = _quoted(data)
        found: list[FunctionText] = []
        open_ones: list[tuple[int, int, bool]] = []  # the width of the indentation, the start, and `async`
        region = 0
        for begins in _BEGINS.finditer(data):
            at, width = begins.start(), len(begins[1])
            while quoted is not None and region < len(quoted) and quoted[region][1] <= at:
                region += 1
            if quoted is not None and region < len(quoted) and quoted[region][0] <= at:
                continue
            while quoted is not None and open_ones and open_ones[-1][0] >= width:
                _width, start, is_async = open_ones.pop()
                found.append(FunctionText(max(start - 1, 0), at - 1, is_async))
            if begins[3] is not None:
                open_ones.append((width, at, begins[2] is not None or quoted is None))
        found += [
            FunctionText(max(start - 1, 0), len(self.data), is_async) for _width, start, is_async in open_ones
        ]
        return sorted(found, key=lambda one: one.start)


def _quoted(data: bytes) -> list[tuple[int, int]] | None:
    """The texts in three quotes, from their beginnings to their ends. None if a mark may be part of another text."""
    found: list[tuple[int, int]] = []
    kind, since = b"", 0
    for mark in _MARKS.finditer(data):
        if kind:
            if mark[0] == kind:
                found.append((since, mark.end()))
                kind = b""
            continue
        begins = data.rfind(b"\n", max(0, mark.start() - _LONGEST), mark.start())
        line = data[begins + 1 : mark.start()]
        if (
            begins < 0
            or b"#" in line
            or line.count(b'"') % 2
            or line.count(b"'") % 2
            or data[mark.end() : mark.end() + 1] in _ANY
        ):
            return None
        kind, since = mark[0], mark.start()
    return None if kind else found
