"""Starlette's own file responses behind the cache, in ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse

from tests.http.fleet import Fleet, status_of

BODY = bytes(range(256)) * 8


async def test_a_file_that_is_read_in_ranges_is_read_from_the_disk_once(tmp_path: Path) -> None:
    path = tmp_path / "film.bin"
    path.write_bytes(BODY)
    asked: list[str | None] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked.append(Request(scope).headers.get("range"))
        response = FileResponse(path, headers={"cache-control": "max-age=60"})
        await response(scope, receive, send)

    async with Fleet(app, processes=2) as fleet:
        for process, wanted in enumerate(["bytes=0-1023", "bytes=1024-"]):
            part = await fleet.get(process=process, range=wanted)
            assert (part.status, part.body) == (206, BODY[1024 * process : 1024 * process + 1024])
        for wanted, body in [("", BODY), ("bytes=1000-1100", BODY[1000:1101]), ("bytes=-9", BODY[-9:])]:
            answer = await fleet.get(**({"range": wanted} if wanted else {}))
            assert answer.body == body
            assert "; hit" in status_of(answer)
        assert asked == ["bytes=0-1023", "bytes=1024-"]
        path.write_bytes(BODY[::-1] + b"x")
        fleet.clock.advance(61)
        assert (await fleet.get(range="bytes=0-9")).body == BODY[::-1][:10]
