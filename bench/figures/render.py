"""Each benchmark's JSON as the Markdown of a page."""

from __future__ import annotations

import math
from typing import Any, Final

from bench.audit.__main__ import figure_cells
from bench.herd.measure import Figures, Latency
from bench.herd.table import FOOTNOTE, figure_rows
from bench.http.report import markdown as http_markdown
from bench.http.results import Results as HttpResults
from bench.markdown import grid
from bench.micro.row import Row
from bench.micro.table import as_cells
from bench.peers.report import markdown as peers_markdown
from bench.peers.results import Results as PeersResults
from bench.scale.__main__ import Figures as ScaleFigures

__all__ = ["audit", "demo", "http", "micro", "peers", "scale", "scale_figures", "watching"]

_MODES: Final = {
    "naive": "naive",
    "local": "lock per worker",
    "incident-fix": "the incident's fix",
    "guard": "`locked_cache`",
    "guard-stale": "and `stale_ttl`",
    "middleware": "the HTTP cache",
}


def demo(figures: dict[str, Any]) -> str:
    columns = {mode: _herd_figures(found) for mode, found in figures["modes"].items()}
    setting = (
        f"{figures['machine']}; {figures['database']}, {figures['redis']}; {figures['users']} users, entries fresh for "
        f"{figures['ttl']:g} s, {figures['seconds_per_mode']:g} s for each way. One query alone takes "
        f"{1000 * figures['solo_seconds']:.0f} ms."
    )
    rows = [[what, *texts] for what, texts in figure_rows(list(columns.values()))]
    return f"{setting}\n\n{grid(['', *[_MODES[mode] for mode in columns]], rows)}\n\n{FOOTNOTE}"


def _herd_figures(found: dict[str, Any]) -> Figures:
    told = {name: value for name, value in found.items() if name != "note"}
    for name in ("latency", "latency_after_expiry"):
        told[name] = Latency(**{key: math.nan if at is None else at for key, at in found[name].items()})
    return Figures(**told)


def micro(figures: dict[str, Any]) -> str:
    fields = Row.__slots__
    rows = [
        Row(name=name, **{key: value for key, value in found.items() if key in fields})
        for name, found in figures["rows"].items()
    ]
    table = grid(["work", "ours", "bare client", "figure", "must be", ""], map(as_cells, rows))
    return f"{figures['setting']}.\n\n{table}"


def peers(figures: dict[str, Any]) -> str:
    return peers_markdown(PeersResults.from_json(figures)).rstrip()


def http(figures: dict[str, Any]) -> str:
    return http_markdown(HttpResults.from_json(figures)).rstrip()


def scale_figures(figures: dict[str, Any]) -> ScaleFigures:
    return ScaleFigures.from_json(figures)


def scale(figures: dict[str, Any]) -> str:
    sheets = [f"{sheet.title}:\n\n{sheet.as_markdown()}" for sheet in scale_figures(figures).sheets()]
    return "\n\n".join([f"{figures['setting']}.", *sheets])


def watching(figures: dict[str, Any]) -> str:
    return f"{figures['setting']}.\n\n{grid(['what', 'cost'], figures['rows'])}"


def audit(figures: dict[str, Any]) -> str:
    titles = ["tree", "files", "MB", "tool", "seconds", "CPU seconds", "files/s", "memory", "must be"]
    return f"{figures['setting']}.\n\n{grid(titles, map(figure_cells, figures['rows']))}"
