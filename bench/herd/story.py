"""The whole result of a run: the figures, the machine, and a note for the reader about each mode."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.herd.measure import Figures
from bench.herd.modes import Mode
from bench.herd.plan import Plan
from bench.herd.recording import Recording
from bench.herd.stage import Stage

__all__ = ["ABOUT", "Story", "Told", "machine"]

_CROWDED = 20.0

ABOUT: Final[dict[Mode, str]] = {
    "naive": "get, compute, set; nothing else",
    "local": "one asyncio.Lock per worker: the incident",
    "incident-fix": "a worker's lock and a Redis lock: the incident's fix",
    "guard": "@locked_cache(ttl=...)",
    "guard-stale": "@locked_cache(ttl=..., stale_ttl=...)",
    "middleware": 'StampedeMiddleware in front of the app, CacheRoute("/quality", ttl=...)',
}


@dataclass(frozen=True, slots=True)
class Told:
    """One mode: its recording and its figures."""

    recording: Recording
    figures: Figures

    @property
    def note(self) -> str:
        """What makes this mode's figures misleading if it goes unsaid; empty if nothing does."""
        if not self.figures.queries_per_expiry:
            return "no expiry was seen: late requests rewrote the entry before it could expire"
        if self.recording.mode == "naive" and max(self.figures.queries_per_expiry) > 4 * self.figures.workers:
            return (
                "requests that missed wait for a pooled connection, run the query although the value is there by "
                "then, and rewrite the entry late: it lives longer, so expiries are fewer and each is larger"
            )
        return ""


@dataclass(frozen=True, slots=True)
class Story:
    """All modes of one run, in the order in which they ran."""

    plan: Plan
    stage: Stage
    machine: str
    modes: dict[Mode, Told]

    @property
    def notes(self) -> list[str]:
        """What a reader must know before believing the times."""
        notes = [f"{mode}: {told.note}" for mode, told in self.modes.items() if told.note]
        if not self.stage.calibration.is_typical:
            notes.append(
                "the query alone takes less than 300 or more than 700 ms: proportions differ from the story's"
            )
        others = max((told.figures.others_cpu_mean for told in self.modes.values()), default=0.0)
        if others > _CROWDED:
            notes.append(
                f"other programs used up to {others:.0f} % of the CPU meanwhile: alone, all times are shorter"
            )
        return notes

    def write_json(self, path: Path) -> None:
        """`modes.<name>.queries_per_expiry` is a list with one count per expiry; times are in seconds."""
        content = {
            "machine": self.machine,
            "database": self.stage.database_version,
            "redis": self.stage.redis_version,
            "solo_seconds": self.stage.calibration.solo_seconds,
            "rows": self.stage.calibration.rows,
            "table_megabytes": self.stage.calibration.megabytes,
            "ttl": self.plan.ttl,
            "users": self.plan.load.users,
            "seconds_per_mode": self.plan.load.seconds,
            "modes": {
                mode: {**dataclasses.asdict(told.figures), "note": told.note}
                for mode, told in self.modes.items()
            },
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_without_nan(content), indent=2) + "\n")


def machine() -> str:
    """This machine in one line."""
    name = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return f"{os.cpu_count()} cores ({name}), {platform.system()}, Python {platform.python_version()}"


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
