"""Runs Locust in a process of its own, and reads its records."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.herd import processes
from bench.herd.recording import Request

__all__ = ["Load", "read_requests"]

_LOCUSTFILE = Path(__file__).resolve().parents[1] / "locustfile.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`users` that each ask every `period` seconds, started `spawn_rate` a second, for `seconds` after that."""

    users: int
    spawn_rate: float
    period: float
    seconds: float

    @property
    def ramp(self) -> float:
        return self.users / self.spawn_rate

    @property
    def duration(self) -> float:
        return float(round(self.ramp + self.seconds))

    def start(self, host: str, directory: Path) -> processes.Child:
        """Start Locust against `host`; its requests go to `directory`/requests.jsonl."""
        return processes.start(
            [
                *(sys.executable, "-m", "locust", "-f", _LOCUSTFILE, "--headless", "--host", host),
                *("--users", str(self.users), "--spawn-rate", str(self.spawn_rate)),
                *("--run-time", f"{self.duration:.0f}s", "--stop-timeout", "60"),
                *("--only-summary", "--exit-code-on-error", "0", "--loglevel", "WARNING"),
            ],
            env={
                **os.environ,
                "HERD_REQUESTS": str(directory / "requests.jsonl"),
                "HERD_PERIOD": str(self.period),
            },
            cwd=directory,
            log=directory / "locust.log",
        )


def read_requests(path: Path) -> tuple[float, list[Request]]:
    """When all users had been started, and every request. Raises `RuntimeError` if they never were."""
    ramped = None
    requests = []
    for line in path.read_text().splitlines():
        fields = json.loads(line)
        if "ramped" in fields:
            ramped = float(fields["ramped"])
        else:
            requests.append(Request(**fields))
    if ramped is None:
        raise RuntimeError("Locust ended before all users were started")
    return ramped, requests
