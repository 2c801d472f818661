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

__all__ = ["audit", "demo", "http", "micro", "peers", "scale", "scale_figures", "sizes", "watching"]

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


def sizes(micro: dict[str, Any], scale: dict[str, Any]) -> str:
    """What a fleet needs, in the page about deployments."""
    costs, memory = scale_figures(scale).costs, micro["rows"]["memory"]
    growth = f"{memory['figure']:.1f} {memory['unit']} after {memory['keys']:,} keys, each called once"
    rows = [
        ["growth of a process", f"{growth}, with `last_value_bytes=0`"],
        [
            "Redis's processor per hit",
            f"{costs.read:.0f} us alone in its tick, {costs.read_key:.0f} us for each further hit of that tick",
        ],
        [
            "Redis's processor per expiry",
            f"{costs.acquire:.0f} us for the grant, {costs.held:.0f} us per waiting process, "
            f"{costs.publish:.0f} us for the value, {costs.told:.0f} us per wake-up",
        ],
    ]
    so = (
        f"So one core of this server serves about {_rate(costs.read)} hits per second if each comes alone "
        f"(1 s / {costs.read:.0f} us), and up to {_rate(costs.read_key)} if many come together."
    )
    return f"{scale['setting']}.\n\n{grid(['what', 'how much'], rows)}\n\n{so}"


def _rate(microseconds: float) -> str:
    """How many a second, with two digits: more would be noise."""
    return f"{float(f'{1e6 / microseconds:.2g}'):,.0f}"


def watching(figures: dict[str, Any]) -> str:
    return f"{figures['setting']}.\n\n{grid(['what', 'cost'], figures['rows'])}"


def audit(figures: dict[str, Any]) -> str:
    titles = ["tree", "files", "MB", "tool", "seconds", "CPU seconds", "files/s", "memory", "must be"]
    return f"{figures['setting']}.\n\n{grid(titles, map(figure_cells, figures['rows']))}"
