"""The herd's users: many users, each with its own connection, not in step with each other.

With Locust's own page, against the service that `make herd-serve` starts, or against your own:

    locust -f bench/locustfile.py --host http://127.0.0.1:8000
    locust -f bench/locustfile.py --host http://127.0.0.1:8080 --path /reports/7 --period 2 --users 200

The page and `--help` show both options:

- `--path` is the path of the requests (or $HERD_PATH; default /quality?project=1).
- `--period` is the time from one request of a user to the next, in seconds (or $HERD_PERIOD; default 0.75).

$HERD_REQUESTS names a file for every single request, because Locust rounds its own percentiles.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any, TextIO

from locust import FastHttpUser, events, task
from locust.argument_parser import LocustArgumentParser


@events.init_command_line_parser.add_listener  # type: ignore[untyped-decorator]
def _options(parser: LocustArgumentParser) -> None:
    parser.add_argument(
        "--path", env_var="HERD_PATH", default="/quality?project=1", help="path of the requests"
    )
    parser.add_argument(
        "--period",
        env_var="HERD_PERIOD",
        type=float,
        default=0.75,
        help="seconds from one request of a user to the next",
    )


class Reader(FastHttpUser):
    """Asks for the same report again and again, on a beat of its own."""

    connection_timeout = 30.0
    network_timeout = 120.0

    def on_start(self) -> None:
        options = self.environment.parsed_options
        self._path: str = options.path
        self._period: float = options.period
        self._offset = random.uniform(0.0, self._period)
        time.sleep(self._offset)

    def wait_time(self) -> float:
        """Until this user's next beat. After a stall every user is back on its own beat, not all on one."""
        elapsed = time.time() - self._offset
        beat = round(elapsed / self._period) + 1 + random.uniform(-0.1, 0.1)
        return max(0.0, beat * self._period - elapsed)

    @task
    def read(self) -> None:
        self.client.get(self._path, name=self._path.partition("?")[0])


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
    recorder = Recorder(Path(os.environ["HERD_REQUESTS"]).open("w", buffering=1))  # noqa: SIM115 - until Locust quits
    for event, listener in (
        (events.request, recorder.request),
        (events.spawning_complete, recorder.ramped),
        (events.quit, recorder.close),
    ):
        event.add_listener(listener)  # type: ignore[no-untyped-call]
