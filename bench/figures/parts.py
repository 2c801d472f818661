"""The benchmarks, in the order of a run: which command measures each, where it leaves its figures, what it draws."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.figures.render import scale_figures
from bench.http import report as http_report
from bench.http.results import Results as HttpResults
from bench.peers import picture as peers_picture
from bench.peers.results import Results as PeersResults
from bench.scale.plots import save_picture
from scripts.interpreters import interpreter

__all__ = ["PARTS", "Part"]

Draw = Callable[[dict[str, Any], Path, Path], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """`make TARGET VARIABLE="OPTIONS"` measures it. `{out}` in the options is the folder of the run, where it writes
    `figures`. `pictures`: by path in the repository, how to draw each from the figures, or to take it from the folder.
    `whole_if_written`: the benchmark writes its figures only after it has measured everything, and ends with an error
    if they break a promise. They are recorded, because a figure that falls short belongs in its table, too.
    """

    target: str
    variable: str
    full: str
    quick: str
    figures: str
    pictures: Mapping[str, Draw] = field(default_factory=dict)
    more: Callable[[], list[str]] = list
    whole_if_written: bool = False

    def command(self, out: Path, *, quick: bool) -> list[str]:
        options = (self.quick if quick else self.full).format(out=out)
        return ["make", self.target, f"{self.variable}={options}", *self.more()]

    def read(self, out: Path) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((out / self.figures).read_text("utf-8"))
        return found


def _taken(name: str) -> Draw:
    def take(figures: dict[str, Any], out: Path, target: Path) -> None:
        shutil.copyfile(out / name, target)

    return take


def _peers(figures: dict[str, Any], out: Path, target: Path) -> None:
    peers_picture.draw(PeersResults.from_json(figures), target)


def _http(figures: dict[str, Any], out: Path, target: Path) -> None:
    http_report.draw(HttpResults.from_json(figures), target)


def _scale(figures: dict[str, Any], out: Path, target: Path) -> None:
    measured = scale_figures(figures)
    save_picture(measured.cells, measured.herds, target)


def _python_of_all_peers() -> list[str]:
    """One of the peers needs Python 3.12. Without it here, that row says so."""
    if sys.version_info >= (3, 12) or (newer := interpreter("3.12")) is None:
        return []
    return [f"PYTHON={newer}", "PEERS_VENV=.venv-peers-3.12"]


_HERD = "--json {out}/demo.json --report {out}/demo.html"

PARTS: Final[dict[str, Part]] = {
    "demo": Part(
        target="demo",
        variable="HERD_ARGS",
        full=f"--full {_HERD}",
        quick=f"--smoke {_HERD}",
        figures="demo.json",
        pictures={"docs/herd-modes.png": _taken("demo.png"), "docs/herd.png": _taken("demo-two.png")},
    ),
    "micro": Part(
        target="bench",
        variable="MICRO_ARGS",
        full="--json {out}/micro.json",
        quick="--tiny --only hits --json {out}/micro.json",
        figures="micro.json",
    ),
    "peers": Part(
        target="bench-peers",
        variable="PEERS_ARGS",
        full="--json {out}/peers.json",
        quick="--quick --only ours naive --scenario cold --json {out}/peers.json",
        figures="peers.json",
        pictures={"bench/peers/peers.png": _peers},
        more=_python_of_all_peers,
    ),
    "http": Part(
        target="bench-http",
        variable="HTTP_ARGS",
        full="--json {out}/http.json",
        quick="--quick --only ours --json {out}/http.json",
        figures="http.json",
        pictures={"bench/http/http.png": _http},
    ),
    "scale": Part(
        target="bench-scale",
        variable="SCALE_ARGS",
        full="--output {out}",
        quick="--tiny --output {out}",
        figures="scale.json",
        pictures={"docs/scale.png": _scale},
        whole_if_written=True,
    ),
    "watching": Part(
        target="bench-watching",
        variable="WATCHING_ARGS",
        full="--json {out}/watching.json",
        quick="prices --json {out}/watching.json",
        figures="watching.json",
    ),
    "audit": Part(
        target="bench-audit",
        variable="AUDIT_ARGS",
        full="--json {out}/audit.json",
        quick="--times 1 --tree stampede_guard --json {out}/audit.json",
        figures="audit.json",
    ),
}
