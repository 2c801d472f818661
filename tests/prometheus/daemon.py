"""A Prometheus of the tests, and questions to it."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.ops.dashboards.test_files import FOLDER

__all__ = ["ask", "prometheus_with"]


@contextlib.contextmanager
def prometheus_with(
    folder: Path,
    ports: Mapping[str, Sequence[int]],
    *,
    every: str = "1s",
    rules: Path = FOLDER / "alerts.yml",
) -> Iterator[str]:
    """The address of a Prometheus that scrapes these ports of this machine, by job, and evaluates the rules."""
    (folder / "prometheus.yml").write_text(
        yaml.safe_dump({
            "global": {"scrape_interval": every, "evaluation_interval": every},
            "rule_files": [str(rules)],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in those]}]}
                for job, those in ports.items()
            ],
        })
    )  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    daemon = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        daemon.terminate()
        daemon.wait(timeout=30)


def ask(url: str, path: str, **query: str) -> Any:
    with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
        return json.load(answer)["data"]
