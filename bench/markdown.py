"""Tables as Markdown, and their place in a page that people write and a program keeps up to date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["between", "grid", "into_page"]


def grid(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column is text, the others are figures."""
    return "\n".join([_line(titles), _line(["---", *["---:"] * (len(titles) - 1)]), *map(_line, rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def between(text: str, name: str) -> str:
    """What stands between the two markers of `name`. Raises `ValueError` if they are not there, once each."""
    begin, end = _span(text, name)
    return text[begin:end].strip("\n")


def into_page(path: Path, figures: str, *, name: str) -> None:
    """Put the figures between the two markers of `name`. Raises `ValueError` if they are not there, once each."""
    text = path.read_text("utf-8")
    begin, end = _span(text, name)
    path.write_text(f"{text[:begin]}\n\n{figures}\n\n{text[end:]}", "utf-8")


def _span(text: str, name: str) -> tuple[int, int]:
    begin_mark, end_mark = f"<!-- figures:{name} -->", f"<!-- end:{name} -->"
    if text.count(begin_mark) != 1 or text.count(end_mark) != 1:
        raise ValueError(f"the page must have {begin_mark} and {end_mark} once")
    begin, end = text.index(begin_mark) + len(begin_mark), text.index(end_mark)
    if end < begin:
        raise ValueError(f"{end_mark} stands before {begin_mark}")
    return begin, end
