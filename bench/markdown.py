"""Tables as Markdown, and their place in a README that people write and a program keeps up to date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["grid", "into_readme"]

_END = "<!-- end of the tables -->"


def grid(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column is text, the others are figures."""
    return "\n".join([_line(titles), _line(["---", *["---:"] * (len(titles) - 1)]), *map(_line, rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def into_readme(path: Path, tables: str, *, program: str) -> None:
    """Put the tables between the two markers of `path`. Raises `ValueError` if they are not there."""
    begin_mark = f"<!-- tables: written by `python -m {program} --readme` -->"
    text = path.read_text("utf-8")
    begin, end = text.index(begin_mark) + len(begin_mark), text.index(_END)
    path.write_text(f"{text[:begin]}\n\n{tables}\n{text[end:]}", "utf-8")
