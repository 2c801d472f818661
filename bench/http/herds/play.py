"""Plays a case: a herd of requests at one moment, and what the application and the clients saw."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import h11

from bench.herd import processes
from bench.herd.valkey import ValkeyServer
from bench.http.herds.origin import FOLDER, STORE, WORKERS
from tests.http.suite.play import Answer
from tests.http.suite.sockets import ask, serving

__all__ = ["HERD", "Herded", "judged", "play", "running"]

HERD = 20
EXPIRY = 2.2
"""Seconds until a response of one second is stale, by clocks of whole seconds, too."""


class Herded(NamedTuple):
    """`calls`: of the application for the herd. `seconds`: until the last client had its answer."""

    id: str
    calls: int
    seconds: float
    wrong: str


@contextlib.asynccontextmanager
async def running(application: str, *, kills: bool) -> AsyncIterator[int]:
    """The port of `origin.ours` or `origin.make`. Where a case kills a worker there are two, and our cache is on a
    server.
    """
    app, folder = f"bench.http.herds.origin:{application}", processes.temporary_directory("herds-")
    variables = {FOLDER: str(folder)}
    with ValkeyServer() if kills else contextlib.nullcontext() as server:
        if server is not None:
            variables[STORE] = server.url
        async with serving("uvicorn", app=app, workers=WORKERS if kills else 1, **variables) as port:
            yield port


async def play(case: dict[str, Any], port: int) -> Herded:
    path = f"/herd/{case['id']}"
    fields = case.get("fields", [[]])
    if case.get("primed"):
        await ask(port, "GET", path, [], b"")
        await asyncio.sleep(EXPIRY)
    await ask(port, "GET", f"/begin/{case['id']}", [], b"")
    began = time.monotonic()
    # As a browser does, and a proxy in front: a connection that dies with its worker is asked again on another one.
    tries = 1 + case.get("kills", 0)
    asked = [_one(port, path, [tuple(pair) for pair in fields[n % len(fields)]], tries) for n in range(HERD)]
    answers = await asyncio.gather(*asked)
    seconds = time.monotonic() - began
    await asyncio.sleep(EXPIRY / 2)
    calls = int((await ask(port, "GET", f"/calls/{case['id']}", [], b"")).body)
    later = 0
    if case.get("then"):
        await _one(port, path, [])
        later = int((await ask(port, "GET", f"/calls/{case['id']}", [], b"")).body) - calls
    wrong = judged(case, [fields[n % len(fields)] for n in range(HERD)], answers, calls, seconds, later)
    return Herded(case["id"], calls, seconds, wrong)


async def _one(port: int, path: str, fields: list[tuple[str, str]], tries: int = 1) -> Answer:
    answer = Answer(0, [], b"")
    for _ in range(tries):
        try:
            async with asyncio.timeout(30):
                return await ask(port, "GET", path, fields, b"")
        except (OSError, TimeoutError, h11.RemoteProtocolError) as error:
            answer = Answer(0, [], repr(error).encode())
    return answer


def judged(
    case: dict[str, Any], fields: list[Any], answers: list[Answer], calls: int, seconds: float, later: int
) -> str:
    """What is wrong, or nothing."""
    least, most = case["calls"]
    if not least <= calls <= most:
        return f"{calls} calls"
    statuses = case.get("statuses", [200])
    served = [answer for answer in answers if answer.status in statuses]
    if len(served) < case.get("served", len(answers)):
        return f"{len(answers) - len(served)} not served as expected"
    told = [json.loads(answer.body) for answer in served if answer.body.startswith(b"{")]
    if case.get("distinct") and len({one["call"] for one in told}) != len(answers):
        return "one client's response went to another"
    if "own" in case and any(
        one["own"] != dict(map(tuple, given)).get("Accept-Language")
        for one, given in zip(told, fields, strict=True)
    ):
        return "another variant was served"
    if later < case.get("then", 0):
        return "it was stored"
    return f"took {seconds:.1f} s" if seconds > case.get("within", 30) else ""
