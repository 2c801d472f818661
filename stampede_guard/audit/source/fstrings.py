"""Rewrites f-strings of Python 3.12 (PEP 701) for an older parser: `f"{row["id"]}"` becomes `f"{row['id']}"`.

Every line and column stays. A string inside a replacement field gets the other quotes. If that is not possible, it
becomes a number in parentheses of the same length, because no rule asks for such a text. So does an f-string with
single quotes and a field of several lines: it becomes a sum of numbers, one a line.
"""

from __future__ import annotations

import re

_START = re.compile(r"#[^\n]*|(?<![A-Za-z0-9_])([A-Za-z]{0,2})(\"\"\"|'''|\"|')")
_OTHER = {'"': "'", "'": '"'}
_DEEPEST = 10


def older(source: str) -> str:
    """The same text if nothing has to change, or if it ends within a string."""
    reader = _Literals(source)
    at = 0
    try:
        while found := _START.search(source, at):
            at = found.end() if found[2] is None else reader.string(found, ())
    except _NoString:
        return source
    return "".join(reader.out)


class _NoString(Exception):
    """The text is not what it seemed to be."""


class _Literals:
    def __init__(self, source: str) -> None:
        self.source, self.out = source, list(source)
        self.formats = 0  # open formats, one inside the other
        self.broken = False  # whether a field of the literal has several lines, and single quotes around it

    def string(self, start: re.Match[str], around: tuple[str, ...]) -> int:
        """The end of a string literal. `around` are the quotes of the f-strings around it."""
        quote, at = start[2], start.end()
        formatted = "f" in start[1].lower()
        if len(around) > _DEEPEST:
            raise _NoString
        while at < len(self.source):
            if self.source.startswith(quote, at):
                end = at + len(quote)
                if self.broken and "\n" in self.source[start.start() : end]:
                    self._number(start.start(), end)
                elif around:
                    self._requote(start, end, around)
                self.broken = self.broken and bool(around)
                return end
            letter = self.source[at]
            if letter == "\\":
                at = self._escaped(at, formatted)
            elif letter == "\n" and len(quote) == 1:
                raise _NoString
            elif formatted and letter == "{" and not self.source.startswith("{{", at):
                at = self._field(at + 1, (*around, quote))
            else:
                at += 2 if formatted and self.source.startswith("{{", at) else 1
        raise _NoString

    def _escaped(self, at: int, formatted: bool) -> int:
        if formatted and self.source.startswith("\\N{", at):
            end = self.source.find("}", at)
            return end + 1 if end > 0 else at + 2
        return at + 1 if formatted and self.source.startswith("\\{", at) else at + 2

    def _field(self, at: int, around: tuple[str, ...]) -> int:
        """The end of a replacement field that begins before this place."""
        depth = 0
        while at < len(self.source):
            letter = self.source[at]
            if letter == "}" and not depth:
                return at + 1
            if letter == ":" and not depth:
                return self._format(at + 1, around)
            if letter == "\n" and any(len(quote) == 1 for quote in around):
                self.broken = True
            start = _START.match(self.source, at)
            if start is not None:
                at = start.end() if start[2] is None else self.string(start, around)
                continue
            depth += (letter in "([{") - (letter in ")]}")
            at += 1
        raise _NoString

    def _format(self, at: int, around: tuple[str, ...]) -> int:
        while at < len(self.source):
            letter = self.source[at]
            if letter == "}":
                return at + 1
            if letter == "\n" and len(around[-1]) == 1:
                raise _NoString
            at = self._inner(at + 1, around) if letter == "{" else at + 1
        raise _NoString

    def _inner(self, at: int, around: tuple[str, ...]) -> int:
        """A field inside a format."""
        self.formats += 1
        if self.formats > _DEEPEST:
            raise _NoString
        end = self._field(at, around)
        self.formats -= 1
        return end

    def _number(self, start: int, end: int) -> None:
        """Replaces a literal of several lines."""
        first, *middle, last = self.source[start:end].split("\n")
        lines = [f"({'0' * (len(first) - 2)}+"]
        lines += [f"{'0' * (len(line) - 1)}+" if len(line) > 1 else " " * len(line) for line in middle]
        lines.append(f"{'0' * (len(last) - 1)})")
        self.out[start:end] = "\n".join(lines)

    def _requote(self, start: re.Match[str], end: int, around: tuple[str, ...]) -> None:
        """Gives a nested string the other quotes, if the older parser would stop at it."""
        text = "".join(self.out[start.start() : end])
        single = {quote for quote in around if len(quote) == 1}
        if "\\" not in text and not any(quote in text for quote in single):
            return
        quote = start[2]
        inner = text[len(start[1]) + len(quote) : -len(quote)]
        other = _OTHER[quote[0]]
        plain = len(quote) == 1 and not any(mark in inner for mark in (other, "\\", quote))
        if plain and other not in single:
            self.out[start.start(2)] = self.out[end - 1] = other
        elif "\n" not in text:
            self.out[start.start() : end] = "(" + "0" * (len(text) - 2) + ")"
        else:
            raise _NoString
