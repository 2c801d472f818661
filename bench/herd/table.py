"""The figures of all modes side by side, as rows of text for the terminal and the report alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from rich.table import Table

from bench.herd.measure import Figures
from bench.herd.modes import HAND_WRITTEN
from bench.herd.story import ABOUT, Story

__all__ = ["FOOTNOTE", "figure_rows", "rows", "table_so_far", "terminal_table"]

_MAIN: Final = ("queries per expiry", "DB CPU, peak", "P99", "errors")
FOOTNOTE: Final = (
    "* within 3 s  ** until the last query ends, hits included; a Lua script counts as one command"
)


def rows(story: Story) -> list[tuple[str, list[str]]]:
    """(what, one text per mode), in the order in which a reader asks."""
    return figure_rows([told.figures for told in story.modes.values()])


def figure_rows(columns: Sequence[Figures]) -> list[tuple[str, list[str]]]:
    told = [
        ("queries per expiry", [_counts(figures.queries_per_expiry) for figures in columns]),
        ('answers "collapsed" per expiry', [_collapsed(figures) for figures in columns]),
        ("peak concurrent queries", [str(figures.peak_concurrent_queries) for figures in columns]),
        ("DB CPU, peak", [_percent(figures.db_cpu_peak) for figures in columns]),
        ("DB CPU, mean", [_percent(figures.db_cpu_mean) for figures in columns]),
        ("P50", [_seconds(figures.latency.p50) for figures in columns]),
        ("P95", [_seconds(figures.latency.p95) for figures in columns]),
        ("P99", [_seconds(figures.latency.p99) for figures in columns]),
        ("max", [_seconds(figures.latency.max) for figures in columns]),
        ("P50 after an expiry*", [_seconds(figures.latency_after_expiry.p50) for figures in columns]),
        ("P95 after an expiry*", [_seconds(figures.latency_after_expiry.p95) for figures in columns]),
        ("P99 after an expiry*", [_seconds(figures.latency_after_expiry.p99) for figures in columns]),
        ("max after an expiry*", [_seconds(figures.latency_after_expiry.max) for figures in columns]),
        ("requests over 2 s", [f"{100 * figures.share_over_2s:.2f} %" for figures in columns]),
        ("errors", [str(figures.errors) for figures in columns]),
        ("Redis commands per herd**", [_redis_per_expiry(figures) for figures in columns]),
        ("Redis commands per request", [_redis_per_request(figures) for figures in columns]),
        ("requests", [str(figures.requests) for figures in columns]),
        ("requests per second", [f"{figures.requests_per_second:.0f}" for figures in columns]),
        ("workers that answered", [str(figures.workers) for figures in columns]),
        ("CPU of others, mean", [_percent(figures.others_cpu_mean) for figures in columns]),
        ("CPU of others, peak", [_percent(figures.others_cpu_peak) for figures in columns]),
    ]
    # Only the HTTP cache says of an answer that another's call served it.
    return [(what, texts) for what, texts in told if not all(text == "-" for text in texts)]


def table_so_far(story: Story) -> Table:
    """The main rows of the modes that have run: the first of them is there long before the last."""
    table = Table(
        title=f"So far {len(story.modes)} of {len(story.plan.modes)}", title_justify="left", pad_edge=False
    )
    table.add_column("", no_wrap=True)
    for mode in story.modes:
        table.add_column(mode, justify="right", style="" if mode in HAND_WRITTEN else "bold green")
    for what, texts in rows(story):
        if what in _MAIN:
            table.add_row(what, *texts)
    return table


def terminal_table(story: Story) -> Table:
    table = Table(
        title="One expiring entry, eight workers",
        caption="\n".join([FOOTNOTE, *(f"{mode}: {ABOUT[mode]}" for mode in story.modes)]),
        title_justify="left",
        caption_justify="left",
        pad_edge=False,
    )
    table.add_column("", no_wrap=True)
    for mode in story.modes:
        table.add_column(mode, justify="right", style="" if mode in HAND_WRITTEN else "bold green")
    for what, texts in rows(story):
        table.add_row(what, *texts)
    return table


def _collapsed(figures: Figures) -> str:
    return _counts(figures.collapsed_per_expiry) if any(figures.collapsed_per_expiry) else "-"


def _counts(counts: list[int]) -> str:
    return ", ".join(map(str, counts)) or "no expiry seen"


def _seconds(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.2f} s"


def _percent(value: float | None) -> str:
    return "not visible" if value is None else f"{value:.0f} %"


def _redis_per_expiry(figures: Figures) -> str:
    if figures.redis_commands_per_expiry is None:
        return "not visible"
    return _counts(figures.redis_commands_per_expiry)


def _redis_per_request(figures: Figures) -> str:
    value = figures.redis_commands_per_request
    return "not visible" if value is None else f"{value:.2f}"
