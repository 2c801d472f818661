"""The herd's users: many users, each with its own connection, not in step with each other.

Runs by itself for people who know Locust:

    locust -f bench/locustfile.py --host http://127.0.0.1:8000

Environment:

- HERD_PERIOD is the time from one request of a user to the next, in seconds (default 0.75).
- HERD_PATH is the path of the requests (default /quality?project=1).
- HERD_REQUESTS is a file for every single request, because Locust rounds its own percentiles.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any, TextIO

from locust import FastHttpUser, events, task

PERIOD = float(os.environ.get("HERD_PERIOD", "0.75"))
PATH = os.environ.get("HERD_PATH", "/quality?project=1")


class Reader(FastHttpUser):
    """Asks for the same report again and again, on a beat of its own."""

    connection_timeout = 30.0
    network_timeout = 120.0

    def on_start(self) -> None:
        self._offset = random.uniform(0.0, PERIOD)
        time.sleep(self._offset)

    def wait_time(self) -> float:
        """Until this user's next beat. After a stall every user is back on its own beat, not all on one."""
        elapsed = time.time() - self._offset
        beat = round(elapsed / PERIOD) + 1 + random.uniform(-0.1, 0.1)
        return max(0.0, beat * PERIOD - elapsed)

    @task
    def read(self) -> None:
        self.client.get(PATH, name="quality")


class Recorder:
    """Writes one JSON line per request, and one when all users have been started."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def request(
        self,
        *,
        start_time: float,
        response_time: float,
        response: Any,
        exception: BaseException | None,
        **_: Any,
    ) -> None:
        status = getattr(response, "status_code", 0) or 0
        headers = getattr(response, "headers", None) or {}
        self._write(
            start=start_time,
            seconds=response_time / 1000,
            status=status,
            worker=int(headers.get("x-worker-pid", 0)),
            collapsed="collapsed" in headers.get("cache-status", ""),
            error="" if exception is None else f"{type(exception).__name__}: {exception}",
        )

    def ramped(self, **_: Any) -> None:
        self._write(ramped=time.time())

    def close(self, **_: Any) -> None:
        self._file.close()

    def _write(self, **fields: Any) -> None:
        self._file.write(json.dumps(fields) + "\n")


if "HERD_REQUESTS" in os.environ:
    recorder = Recorder(Path(os.environ["HERD_REQUESTS"]).open("w"))  # noqa: SIM115 - open until Locust quits
    for event, listener in (
        (events.request, recorder.request),
        (events.spawning_complete, recorder.ramped),
        (events.quit, recorder.close),
    ):
        event.add_listener(listener)  # type: ignore[no-untyped-call]
