"""The pairs of the pages: the code after "Before:" and after "After:" of each section."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Pair", "pairs"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
_HEADING = re.compile(r"^#{2,} (.+)$", re.MULTILINE)
_CODE = r"```python\n(.*?)^```"
_PAIR = re.compile(rf"^Before:\n\n{_CODE}\n\nAfter:\n\n{_CODE}", re.DOTALL | re.MULTILINE)
_SHARED = re.compile(_CODE, re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Pair:
    """`shared` is the stand-in for an expensive query. It precedes both."""

    shared: str
    before: str
    after: str


def pairs() -> dict[str, Pair]:
    """By heading. A section has at most one pair, and no other Python beside it. Raises ValueError."""
    query = _SHARED.search((DOCS / "migrating.md").read_text("utf-8"))
    if query is None:
        raise ValueError("the query of the examples is missing")
    found: dict[str, Pair] = {}
    for page in sorted(DOCS.glob("*.md")):
        _, *parts = _HEADING.split(page.read_text("utf-8"))
        for section, text in zip(parts[::2], parts[1::2], strict=True):
            if "\nBefore:\n" not in text:
                continue
            pair = _PAIR.search(text)
            if pair is None or text.count("```python") != 2:
                raise ValueError(f"{page.name}, {section}: not one pair")
            found[section] = Pair(query[1], pair[1], pair[2])
    return found
