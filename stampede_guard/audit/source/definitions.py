"""Where functions begin and end in unparsed text. Mistakes go one way only: a function may seem to end too late."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

DEF = re.compile(rb"^([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
_QUOTES = (b'"""', b"'''")


@lru_cache(maxsize=64)
def outdent(width: int) -> re.Pattern[bytes]:
    """A line that ends a block of this indentation. A closing bracket continues the line before."""
    return re.compile(rb"\n[ \t]{0,%d}[^\s#)\]}]" % width)


@dataclass(frozen=True)
class Span:
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

    def under(self, decorator: re.Pattern[bytes]) -> Iterator[Span]:
        """The functions below such a line."""
        for line in decorator.finditer(self.data):
            found = DEF.search(self.data, line.end())
            if found is not None:
                yield self._span(found)

    @cached_property
    def outermost(self) -> list[Span]:
        spans: list[Span] = []
        end = 0
        for found in DEF.finditer(self.data):
            if found.start() >= end:
                spans.append(self._span(found))
                end = spans[-1].end
        return spans

    def _span(self, found: re.Match[bytes]) -> Span:
        """A text in three quotes may have unindented lines. If one seems to be open, the rest of the file counts."""
        data, start = self.data, found.start()
        ended = outdent(len(found[1])).search(data, found.end())
        end = ended.start() if ended is not None else len(data)
        if sum(data.count(quotes, start, end) for quotes in _QUOTES) % 2:
            end = len(data)
        return Span(start, end, b"async" in found[0])
