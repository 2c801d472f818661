"""Where the figures stand: between two markers of a page, which only a program writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench.figures import render
from bench.figures.compared import compared
from bench.figures.record import ROOT, Record
from bench.markdown import between, into_page

__all__ = ["PLACES", "Place", "write"]


@dataclass(frozen=True, slots=True)
class Place:
    """`parts`: the records that it needs. `text` makes the Markdown of their figures. `short`: without the load."""

    page: str
    parts: tuple[str, ...]
    text: Callable[..., str]
    short: bool = False

    def rendered(self, records: Mapping[str, Record]) -> str | None:
        """None while a record is missing."""
        if not set(self.parts) <= records.keys():
            return None
        found = [records[part] for part in self.parts]
        stamps = dict.fromkeys(record.short_stamp if self.short else record.stamp for record in found)
        figures: list[dict[str, Any]] = [record.figures for record in found]
        return f"{' '.join(stamps)}\n\n{self.text(*figures)}"


PLACES: Final[dict[str, Place]] = {
    "demo": Place("docs/incident.md", ("demo",), render.demo),
    "micro": Place("bench/README.md", ("micro",), render.micro),
    "peers": Place("bench/peers/README.md", ("peers",), render.peers),
    "http": Place("bench/http/README.md", ("http",), render.http),
    "scale": Place("bench/README.md", ("scale",), render.scale),
    "sizes": Place("docs/deploying.md", ("micro", "scale"), render.sizes, short=True),
    "watching": Place("docs/operators.md", ("watching",), render.watching),
    "audit": Place("docs/audit.md", ("audit",), render.audit),
    "compared": Place("README.md", ("peers", "http"), compared, short=True),
}


def write(records: Mapping[str, Record]) -> list[str]:
    """Put the figures into the pages. Returns the pages that changed. Raises ValueError if a marker is missing."""
    changed = []
    for name, place in PLACES.items():
        text = place.rendered(records)
        page = ROOT / place.page
        if text is not None and between(page.read_text("utf-8"), name) != text:
            into_page(page, text, name=name)
            changed.append(place.page)
    return changed
