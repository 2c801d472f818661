"""The application of the cases: it takes its time, counts its calls, and answers as its case says."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

__all__ = ["CASES", "FOLDER", "SECONDS", "STORE", "WORKERS", "make", "ours"]

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in json.loads(Path(__file__).with_name("cases.json").read_text("utf-8"))
}
SECONDS = 0.3
"""How long a call takes."""
WORKERS = 2
"""Of the application, for cases that kill one."""
FOLDER = "HERDS_FOLDER"
"""Names the folder in which the workers count together."""
STORE = "HERDS_STORE"
"""Names the URL of the store of our cache; memory without."""


class Tally:
    """Calls of the application by case, of all its workers: each is a byte of a file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, name: str) -> None:
        (self._folder / name).write_bytes(b"")
        (self._folder / f"{name}.begun").touch()

    def has_begun(self, name: str) -> bool:
        return (self._folder / f"{name}.begun").exists()

    def add(self, name: str) -> int:
        """The number of this call."""
        with (self._folder / name).open("ab") as file:
            file.write(b".")
            return file.tell()

    def count(self, name: str) -> int:
        file = self._folder / name
        return file.stat().st_size if file.exists() else 0


class HerdOrigin:
    """`/herd/{id}` is a case. `/calls/{id}` is how often it was called. A PUT to `/herd/{id}` lets the herd begin."""

    def __init__(self) -> None:
        self._tally = Tally(Path(os.environ[FOLDER]))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        kind, name = scope["path"].split("/")[1:3]
        if kind == "calls":
            await _send(send, 200, [("Cache-Control", "no-store")], str(self._tally.count(name)).encode())
        elif kind == "begin":
            self._tally.begin(name)
            await _send(send, 200, [("Cache-Control", "no-store")], b"")
        else:
            await self._case(scope, send, CASES[name])

    async def _case(self, scope: Any, send: Any, case: dict[str, Any]) -> None:
        number = self._tally.add(case["id"])
        fields = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        await asyncio.sleep(SECONDS)
        begun = self._tally.has_begun(case["id"])
        if begun and number <= case.get("kills", 0):
            os.kill(os.getpid(), signal.SIGKILL)
        if begun and number <= case.get("breaks", 0):
            raise RuntimeError("the call breaks off, as the case says")
        status = case.get("herd_status", 200) if begun else 200
        status = case.get("status", status)
        headers = [tuple(pair) for pair in case["headers"]] if status in (200, case.get("status")) else []
        tag = dict(headers).get("ETag")
        if tag is not None and tag in fields.get("if-none-match", ""):
            await _send(send, 304, headers, b"")
            return
        told = {"call": number, "own": fields.get(case.get("own", ""), "")}
        await _send(send, status, headers, json.dumps(told).encode())


async def _send(send: Any, status: int, headers: list[Any], body: bytes) -> None:
    fields = [(name.lower().encode(), value.encode()) for name, value in headers]
    if status != 304:
        fields.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


def make() -> Any:
    return HerdOrigin()


def ours() -> Any:
    from stampede_guard import StampedeGuard, StampedeMiddleware

    store = os.environ.get(STORE, "memory://")
    return StampedeMiddleware(HerdOrigin(), guard=StampedeGuard.from_url(store, namespace="herds"))
