"""The picture: what a call costs as processes and keys grow, and what one expiry costs a very large fleet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib
from matplotlib import pyplot as plt

from bench.scale.grid import Cell
from bench.scale.simulation import Expiry, Herd

__all__ = ["save_picture"]

matplotlib.use("Agg")  # a report needs no screen

_STYLE: Final[dict[Any, Any]] = {
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e7eb",
    "axes.titlelocation": "left",
    "figure.facecolor": "white",
}


def save_picture(cells: Sequence[Cell], told: Sequence[tuple[Herd, Expiry]], path: Path) -> None:
    with plt.rc_context(_STYLE):
        figure, (hits, misses, herds) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
        _grid(hits, cells, "warm", "A hit: processor time, ours and the server's")
        _grid(misses, cells, "cold", "A cold call: one of them computes")
        for compute in sorted({herd.compute for herd, _ in told}):
            line = [
                (herd.processes, expiry.longest_answer * 1000)
                for herd, expiry in told
                if herd.compute == compute
            ]
            herds.plot(
                *zip(*line, strict=True), marker="o", label=f"slowest answer, {compute:g} s to compute"
            )
        shortest = min(herd.compute for herd, _ in told)
        line = [
            (herd.processes, expiry.last_served * 1000) for herd, expiry in told if herd.compute == shortest
        ]
        herds.plot(
            *zip(*line, strict=True),
            "--",
            color="#15803d",
            marker=".",
            label=f"all served after, {shortest:g} s to compute",
        )
        herds.axhline(500, color="#dc2626", linewidth=1, label="an answer counts as lost")
        herds.set(xscale="log", yscale="log", xlabel="processes that miss at once", ylabel="ms")
        herds.set_title("One expiry, simulated")
        herds.legend(fontsize=8)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110)
        plt.close(figure)


def _grid(axes: Any, cells: Sequence[Cell], which: str, title: str) -> None:
    for processes in sorted({cell.processes for cell in cells}):
        line = [
            (cell.keys, walk.ours + walk.server)
            for cell in cells
            if cell.processes == processes and (walk := getattr(cell, which))
        ]
        axes.plot(*zip(*line, strict=True), marker="o", label=f"{processes} processes")
    axes.set(xscale="log", yscale="log", xlabel="keys", ylabel="us per call")
    axes.set_title(title)
    axes.legend(fontsize=8)
