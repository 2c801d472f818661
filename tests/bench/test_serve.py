"""`make herd-serve`: the service stands alone, Locust's own file loads it, and Ctrl-C stops everything."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 180.0


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The service in mode `guard` with two workers, and its address."""
    command = [sys.executable, "-m", "bench.herd.serve", "--workers", "2", "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said: list[str] = []
    try:
        for line in process.stdout:
            said.append(line)
            if "Ctrl-C" in line:
                break
        found = re.search(r"--host (http://127\.0\.0\.1:\d+)$", "".join(said), re.MULTILINE)
        assert found, "".join(said)
        yield process, found[1]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)


def locust(url: str, directory: Path, *options: str, **environment: str) -> list[dict[str, object]]:
    """The requests of a short run."""
    records = directory / "requests.jsonl"
    subprocess.run(
        [
            *(sys.executable, "-m", "locust", "-f", ROOT / "bench" / "locustfile.py", "--host", url),
            *("--headless", "--users", "4", "--spawn-rate", "4", "--run-time", "9s", "--only-summary"),
            *("--exit-code-on-error", "0", *options),
        ],
        env={**os.environ, "HERD_REQUESTS": str(records), **environment},
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    return [json.loads(line) for line in records.read_text().splitlines()]


@pytest.mark.parametrize("by", ["option", "environment"])
def test_the_users_ask_for_the_path_that_is_given(
    served: tuple[subprocess.Popen[str], str], tmp_path: Path, by: str
) -> None:
    _, url = served
    given = {"HERD_PATH": "/absent", "HERD_PERIOD": "0.3"} if by == "environment" else {}
    options = () if by == "environment" else ("--path", "/quality?project=2", "--period", "0.3")
    requests = [record for record in locust(url, tmp_path, *options, **given) if "status" in record]
    assert len(requests) >= 4
    assert {record["status"] for record in requests} == {404 if by == "environment" else 200}


def test_the_address_that_is_printed_answers(served: tuple[subprocess.Popen[str], str]) -> None:
    _, url = served
    with urllib.request.urlopen(f"{url}/quality?project=1", timeout=PATIENCE) as response:
        assert json.load(response)


def test_a_port_that_is_taken_is_an_error_and_not_half_of_the_requests() -> None:
    from bench.herd.fleet import Fleet
    from bench.herd.settings import AppSettings

    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        settings = AppSettings(
            mode="naive", database_url="", redis_url="redis://127.0.0.1:1", namespace="n", ttl=1, stale_ttl=1
        )
        with pytest.raises(OSError, match="in use"):
            Fleet(settings, 2, port=other.getsockname()[1]).start()


def test_an_interrupt_stops_servers_and_workers(served: tuple[subprocess.Popen[str], str]) -> None:
    process, _ = served
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 4
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    assert psutil.wait_procs(children, timeout=PATIENCE)[1] == []
