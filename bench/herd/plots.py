"""The pictures: what users felt, what the database did, what an expiry cost, what that means per hour."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Final

import matplotlib
from matplotlib import pyplot as plt

from bench.herd.measure import AFTER_EXPIRY
from bench.herd.modes import Mode
from bench.herd.story import Story, Told

__all__ = ["COLOURS", "cost_per_hour", "main_picture", "png", "queries_per_expiry", "save", "two_panels"]

COLOURS: Final[dict[Mode, str]] = {
    "naive": "#7f1d1d",
    "local": "#dc2626",
    "incident-fix": "#ea8a0c",
    "guard": "#15803d",
    "guard-stale": "#0369a1",
    "middleware": "#6d28d9",
}
_STYLE: Final[dict[Any, Any]] = {
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.6,
    "axes.edgecolor": "#9ca3af",
    "axes.titlelocation": "left",
    "figure.facecolor": "white",
}
matplotlib.use("Agg")  # a report needs no screen

_TTLS = (10, 30, 60, 120, 300, 600, 1800, 3600)


def main_picture(story: Story) -> Any:
    """Latency above, DB CPU below, one column per mode, the same scales everywhere; expiries marked."""
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(
            2, len(story.modes), squeeze=False, sharex=True, sharey="row", layout="constrained",
            figsize=(4.3 * len(story.modes), 5.4), gridspec_kw={"height_ratios": (3, 2)},
        )  # fmt: skip
        for column, (mode, told) in enumerate(story.modes.items()):
            _latency(axes[0][column], mode, told)
            _database_cpu(axes[1][column], mode, told)
        axes[0][0].set_yscale("log")
        axes[0][0].set_yticks([0.001, 0.01, 0.1, 1, 10], ["1 ms", "10 ms", "100 ms", "1 s", "10 s"])
        axes[0][0].set_ylim(0.0007, 40 if "naive" in story.modes else 10)
        axes[0][0].set_ylabel("a request's latency")
        axes[1][0].set_ylabel("database CPU, %")
        axes[1][0].set_ylim(0, 105)
        return figure


def two_panels(story: Story, before: Mode, after: Mode) -> Any:
    """Latency over time in two modes side by side, for a page: few words, in letters that are readable there."""
    with plt.rc_context({**_STYLE, "font.size": 13}):
        figure, axes = plt.subplots(1, 2, sharex=True, sharey=True, layout="constrained", figsize=(10, 3.6))
        for axis, mode, title in zip(
            axes, (before, after), ("without: each worker computes", "with it: one computes"), strict=True
        ):
            _latency(axis, mode, story.modes[mode], letters=12)
            axis.set_title(title, fontweight="bold", color=COLOURS[mode])
            axis.set_xlabel("seconds")
        axes[0].set_yscale("log")
        axes[0].set_yticks([0.001, 0.01, 0.1, 1, 10], ["1 ms", "10 ms", "100 ms", "1 s", "10 s"])
        axes[0].set_ylim(0.0007, 20)
        axes[0].set_ylabel("time of a request")
        return figure


def queries_per_expiry(story: Story) -> Any:
    """One bar per expiry, grouped by mode."""
    with plt.rc_context(_STYLE):
        figure, axis = plt.subplots(figsize=(2.2 + 1.6 * len(story.modes), 3.4), layout="constrained")
        position, ticks = 0.0, []
        for mode, told in story.modes.items():
            counts = told.figures.queries_per_expiry or [0]
            places = [position + offset for offset in range(len(counts))]
            axis.bar_label(axis.bar(places, counts, color=COLOURS[mode], width=0.8), fontsize=9)
            ticks.append((sum(places) / len(places), mode))
            position = places[-1] + 2
        axis.set_xticks([place for place, _ in ticks], [mode for _, mode in ticks])
        axis.grid(axis="x", visible=False)
        axis.set_ylabel("queries")
        axis.set_title("Queries at each expiry (pg_stat_statements)")
        return figure


def cost_per_hour(story: Story) -> Any:
    """Database core-seconds per hour for one entry, against its ttl: what a shorter ttl would cost."""
    solo = story.stage.calibration.solo_seconds
    with plt.rc_context(_STYLE):
        figure, axis = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
        for mode, told in story.modes.items():
            counts = told.figures.queries_per_expiry
            if counts:
                mean = sum(counts) / len(counts)
                cost = [3600 / ttl * mean * solo for ttl in _TTLS]
                axis.plot(
                    _TTLS, cost, "o-", color=COLOURS[mode], label=f"{mode} ({mean:.3g} per expiry)", ms=4
                )
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks(_TTLS, ["10 s", "30 s", "1 min", "2 min", "5 min", "10 min", "30 min", "1 h"])
        axis.minorticks_off()
        axis.set_xlabel("ttl of the entry")
        axis.set_ylabel("database core-seconds per hour")
        axis.set_title(f"One entry's cost at {1000 * solo:.0f} ms per query, if it is always asked for")
        if axis.lines:
            axis.legend(frameon=False)
        return figure


def png(figure: Any) -> bytes:
    """The picture as PNG; the figure is closed."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    plt.close(figure)
    return buffer.getvalue()


def save(picture: bytes, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture)


def _shown(told: Told) -> tuple[float, float]:
    """From when to when. An expiry so late that what follows it is not seen is not counted, and is not shown either."""
    return told.recording.ramped, told.recording.stopped - AFTER_EXPIRY


def _latency(axis: Any, mode: Mode, told: Told, *, letters: float = 8) -> None:
    begin, end = _shown(told)
    shown = [request for request in told.recording.requests if begin <= request.start <= end]
    axis.plot(
        [request.start - begin for request in shown], [max(0.001, request.seconds) for request in shown],
        ".", ms=2.5, alpha=0.5, color=COLOURS[mode], rasterized=True,
    )  # fmt: skip
    failed = [request for request in shown if request.failed]
    axis.plot([r.start - begin for r in failed], [max(0.001, r.seconds) for r in failed], "kx", ms=4)
    for expiry, queries in zip(told.figures.expiries, told.figures.queries_per_expiry, strict=True):
        axis.axvline(expiry, color="#6b7280", lw=0.8, ls="--")
        label = f"{queries} quer{'y' if queries == 1 else 'ies'}"
        axis.annotate(
            label, (expiry, 0.985), xycoords=("data", "axes fraction"), xytext=(3, 0),
            textcoords="offset points", va="top", fontsize=letters, color="#374151",
        )  # fmt: skip
    axis.set_title(mode, fontweight="bold", color=COLOURS[mode])


def _database_cpu(axis: Any, mode: Mode, told: Told) -> None:
    begin, end = _shown(told)
    shown = [s for s in told.recording.cpu if begin <= s.time <= end and s.database is not None]
    times = [sample.time - begin for sample in shown]
    shares = [100 * (sample.database or 0.0) for sample in shown]
    axis.fill_between(times, shares, step="pre", color=COLOURS[mode], alpha=0.25, lw=0)
    axis.step(times, shares, where="pre", color=COLOURS[mode], lw=1.2)
    for expiry in told.figures.expiries:
        axis.axvline(expiry, color="#6b7280", lw=0.8, ls="--")
    axis.set_xlabel("seconds since all users were there")
