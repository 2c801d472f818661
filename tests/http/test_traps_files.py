"""An application may use again, close or delete what it has sent, as soon as its `send` has returned."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.http.asgi import scope_of
from tests.http.fleet import App, Fleet, cached, start
from tests.http.test_herd import joined


async def silent() -> Any:
    """Of a client that stays, and sends no body."""
    await asyncio.Event().wait()


@pytest.mark.parametrize("length", [True, False], ids=["with a length", "without"])
async def test_a_file_may_be_deleted_when_it_has_been_sent(length: bool, tmp_path: Path) -> None:
    path = tmp_path / "report"
    app = App()
    sent: list[Any] = []

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        path.write_bytes(b"content")
        await start(send, cached() | ({"content-length": "7"} if length else {}))
        await send({"type": "http.response.pathsend", "path": str(path)})
        path.unlink()

    async def send(message: Any) -> None:
        """A server opens the file when it gets its name."""
        sent.append(path.read_bytes() if message["type"] == "http.response.pathsend" else message.get("body"))

    app.handler = handler
    async with Fleet(app) as fleet:
        scope = scope_of("GET", "/", []) | {"extensions": {"http.response.pathsend": {}}}
        await fleet.middlewares[0](scope, silent, send)
        assert sent[1:] == [b"content"]
        assert not path.exists()
        assert (await fleet.get()).body == b"content"


@pytest.mark.parametrize("gone", ["early", "late"])
async def test_the_file_of_a_client_that_has_left_is_let_go(gone: str, tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_bytes(b"content")
    app, after = App(), asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await app.go.wait()
        await start(send, cached())
        await send({"type": "http.response.pathsend", "path": str(path)})
        after.set()

    async def send(message: Any) -> None:
        app.called.set()
        await asyncio.Event().wait()

    app.handler = handler
    app.go.clear()
    async with Fleet(app) as fleet:
        scope = scope_of("GET", "/", []) | {"extensions": {"http.response.pathsend": {}}}
        own = asyncio.ensure_future(fleet.middlewares[0](scope, silent, send))
        await app.called.wait()
        other = asyncio.ensure_future(fleet.get())
        await joined(fleet, 1)
        app.called.clear()
        if gone == "early":
            own.cancel()
            await asyncio.wait({own})
        app.go.set()
        if gone == "late":
            await app.called.wait()
            own.cancel()
        async with asyncio.timeout(60):
            assert (await other).body == b"content"
            await after.wait()
        await asyncio.wait({own})


@pytest.mark.parametrize("how", ["an offset", "its position"])
async def test_an_open_file_is_read_when_it_is_sent_and_may_be_closed_then(how: str, tmp_path: Path) -> None:
    (tmp_path / "report").write_bytes(b"0123456789")
    app = App()
    sent: list[Any] = []

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, cached())
        with (tmp_path / "report").open("rb", buffering=0) as file:
            for place, count in ((0, 4), (4, 3)):
                part = {"type": "http.response.zerocopysend", "file": file.fileno(), "count": count}
                await send(part | ({"offset": place} if how == "an offset" else {}) | {"more_body": True})
            assert file.tell() == (0 if how == "an offset" else 7)
            last = {"offset": 7} if how == "an offset" else {}
            await send({"type": "http.response.zerocopysend", "file": file, **last})

    async def send(message: Any) -> None:
        """A server uses the number of the file when it gets the message."""
        if message["type"] == "http.response.zerocopysend":
            file = message["file"]
            number = file if isinstance(file, int) else file.fileno()
            count, offset = message.get("count", 100), message.get("offset")
            sent.append(os.read(number, count) if offset is None else os.pread(number, count, offset))
        else:
            sent.append(message.get("body"))

    app.handler = handler
    async with Fleet(app) as fleet:
        scope = scope_of("GET", "/", []) | {"extensions": {"http.response.zerocopysend": {}}}
        await fleet.middlewares[0](scope, silent, send)
        assert sent[1:] == [b"0123", b"456", b"789"]
        assert (await fleet.get()).body == b"0123456789"


async def one_message(scope: Any, receive: Any, send: Any, number: int) -> None:
    await start(send, cached())
    message: dict[str, Any] = {"type": "http.response.body", "more_body": True}
    for chunk in (b"one", b"two", b"three"):
        message["body"] = chunk
        await send(message)
    message["body"], message["more_body"] = b"", False
    await send(message)


async def one_buffer(scope: Any, receive: Any, send: Any, number: int) -> None:
    await start(send, cached())
    buffer = bytearray(5)
    for chunk in (b"one", b"two", b"three"):
        buffer[: len(chunk)] = chunk
        await send(
            {"type": "http.response.body", "body": memoryview(buffer)[: len(chunk)], "more_body": True}
        )
    await send({"type": "http.response.body", "body": b""})


async def one_start(scope: Any, receive: Any, send: Any, number: int) -> None:
    fields = [(b"cache-control", b"max-age=60")]
    message: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": fields}
    await send(message)
    message |= {"status": 500, "trailers": True}
    await send({"type": "http.response.body", "body": b"onetwothree"})


async def copied(fleet: Fleet) -> list[Any]:
    """What a server has read of each message when its `send` returns."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append({**message, "body": bytes(message.get("body", b""))})

    await fleet.middlewares[0](scope_of("GET", "/", []), silent, send)
    return sent


@pytest.mark.parametrize("handler", [one_message, one_buffer, one_start])
async def test_an_application_may_use_its_message_and_its_buffer_again(handler: Any) -> None:
    app = App()
    app.handler = handler
    async with Fleet(app) as fleet:
        for kind in ("uri-miss", "hit"):
            sent = await copied(fleet)
            assert kind in dict(sent[0]["headers"])[b"cache-status"].decode()
            assert sent[0]["status"] == 200 and "trailers" not in sent[0]
            assert b"".join(message["body"] for message in sent[1:]) == b"onetwothree"
            assert [message["more_body"] for message in sent[1:]] == [True] * (len(sent) - 2) + [False]
