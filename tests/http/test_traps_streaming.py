"""Bodies that are too large, endless or slow pass through as they come, and nobody waits for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import CacheRoute, Policy
from stampede_guard.http.requests.exchange import Exchange
from tests.http.asgi import scope_of
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.http.test_herd import joined
from tests.support.gate import until

ROUTES = [CacheRoute("/*", ttl=60)]


class Client:
    """Reads no faster than `ticket` is released; `ready` has all that it was sent."""

    def __init__(self, fleet: Fleet, path: str = "/", *, tickets: int = 1_000_000, process: int = 0) -> None:
        self.messages: list[Any] = []
        self.gone = asyncio.Event()
        self.ticket = asyncio.Semaphore(tickets)
        self._asked = False
        self.task = asyncio.ensure_future(
            fleet.middlewares[process](scope_of("GET", path, []), self._receive, self._send)
        )

    async def _receive(self) -> Any:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self.ticket.acquire()
        self.messages.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)


def in_parts(app: App, headers: dict[str, str], parts: int) -> asyncio.Semaphore:
    """The application sends a part for each release."""
    more = asyncio.Semaphore(0)

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, headers)
        for _ in range(parts):
            await more.acquire()
            await send({"type": "http.response.body", "body": b"x" * 10, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    app.handler = handler
    return more


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/event-stream"},
        {"content-type": "text/event-stream", "cache-control": "no-store"},
        cached(),
        cached(content_length="50"),
        cached(content_length="1000"),
        {"cache-control": "private"},
    ],
    ids=str,
)
@pytest.mark.parametrize("routes", [[], ROUTES], ids=["plain", "routed"])
async def test_its_own_client_reads_every_part_as_it_is_written(
    headers: dict[str, str], routes: list[CacheRoute]
) -> None:
    app = App()
    parts = int(headers.get("content-length", "50")) // 10
    more = in_parts(app, headers, parts)
    async with Fleet(app, routes=routes, max_body_bytes=500) as fleet:
        client = Client(fleet)
        # The last one may wait for the store.
        for number in range(1, parts):
            more.release()
            await until(lambda number=number: len(client.body) == 10 * number)
        more.release()
        async with asyncio.timeout(60):
            await client.task
        assert len(client.body) == 10 * parts
        assert client.messages[-1]["more_body"] is False


@pytest.mark.parametrize("length", ["", "100000"])
async def test_a_large_body_lets_its_waiters_go_at_the_first_sign(length: str) -> None:
    app = App()
    headers = cached(content_length=length) if length else cached()
    first_sign, rest = asyncio.Event(), asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, headers)
        await send({"type": "http.response.body", "body": b"x" * 100, "more_body": True})
        await first_sign.wait()
        await send({"type": "http.response.body", "body": b"x" * 5000, "more_body": True})
        await rest.wait()
        await send({"type": "http.response.body", "body": b"x" * (100_000 - 5100)})

    app.handler = handler
    async with Fleet(app, max_body_bytes=1000) as fleet:
        herd = fleet.herd(5)
        if not length:
            await joined(fleet, 5)
            first_sign.set()
        await until(lambda: app.open == 5)
        first_sign.set()
        rest.set()
        answers = await asyncio.gather(*herd)
        assert [len(answer.body) for answer in answers] == [100_000] * 5
        assert "hit" not in status_of(await fleet.get())


async def test_a_slow_client_holds_back_only_the_application_that_answers_it() -> None:
    app = App()
    sent: dict[int, int] = {}

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, {"cache-control": "no-store"})
        for count in range(1, 501):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            sent[number] = count
        await send({"type": "http.response.body", "body": b""})

    app.handler = handler
    async with Fleet(app) as fleet:
        slow = Client(fleet, tickets=5)
        await until(lambda: len(slow.messages) == 5)
        fast = Client(fleet)
        async with asyncio.timeout(60):
            await fast.task
        assert len(fast.body) == 500
        assert sent[1] < 50
        for _ in range(600):
            slow.ticket.release()
        async with asyncio.timeout(60):
            await slow.task
        assert len(slow.body) == 500


async def test_a_slow_client_of_a_stored_answer_holds_back_nobody() -> None:
    app = App()
    more = in_parts(app, cached(content_length="50"), 5)
    async with Fleet(app) as fleet:
        slow = Client(fleet, tickets=1)
        await until(lambda: len(slow.messages) == 1)
        others = fleet.herd(5)
        for _ in range(5):
            more.release()
        assert {len(answer.body) for answer in await asyncio.gather(*others)} == {50}
        assert app.calls == 1
        for _ in range(20):
            slow.ticket.release()
        async with asyncio.timeout(60):
            await slow.task
        assert len(slow.body) == 50


async def test_what_is_read_while_it_is_written_is_one_answer_for_all_in_the_process() -> None:
    app = App()
    more = in_parts(app, cached(content_length="50"), 5)
    app.go.clear()
    async with Fleet(app) as fleet:
        clients = [Client(fleet) for _ in range(6)]
        await joined(fleet, 6)
        for number in range(1, 5):
            more.release()
            await until(lambda number=number: all(len(client.body) == 10 * number for client in clients))
        more.release()
        async with asyncio.timeout(60):
            await asyncio.gather(*(client.task for client in clients))
        assert {client.body for client in clients} == {b"x" * 50}
        assert app.calls == 1


async def test_what_is_shorter_than_announced_is_no_whole_for_those_who_read_along() -> None:
    app = App()
    more = in_parts(app, cached(content_length="51"), 5)
    app.go.clear()
    async with Fleet(app) as fleet:
        clients = [Client(fleet) for _ in range(3)]
        await joined(fleet, 3)
        for _ in range(5):
            more.release()
        async with asyncio.timeout(60):
            ends = await asyncio.gather(*(client.task for client in clients), return_exceptions=True)
        assert [type(error).__name__ for error in ends] == ["BrokenOff"] * 3
        assert all(client.messages[-1]["more_body"] for client in clients[1:])
        assert app.calls == 1


async def test_a_websocket_and_what_else_is_not_http_passes_message_by_message() -> None:
    echoed: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "websocket"
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})

    messages: asyncio.Queue[Any] = asyncio.Queue()

    async def send(message: Any) -> None:
        echoed.append(message)

    async with Fleet(app, routes=ROUTES) as fleet:
        scope = {"type": "websocket", "path": "/", "headers": []}
        task = asyncio.ensure_future(fleet.middlewares[0](scope, messages.get, send))
        for text in ("a", "b"):
            messages.put_nowait({"type": "websocket.receive", "text": text})
            await until(lambda text=text: echoed and echoed[-1].get("text") == text)
        messages.put_nowait({"type": "websocket.disconnect"})
        await task
        assert [message["type"] for message in echoed] == ["websocket.accept", *["websocket.send"] * 2]


async def test_an_event_stream_that_says_it_may_be_stored_is_let_go_when_it_is_too_long() -> None:
    app = App()
    ended = asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, cached(content_type="text/event-stream"))
        for _ in range(100):
            await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        ended.set()

    app.handler = handler
    async with Fleet(app, max_body_bytes=100) as fleet:
        client = Client(fleet)
        await until(lambda: len(client.body) == 900)
        client.gone.set()
        async with asyncio.timeout(60):
            await ended.wait()
        async with asyncio.timeout(60):
            await client.task  # its application stopped in mid-body because it left: that is no error


async def test_a_stream_is_no_computation_that_ends_with_compute_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App()
    in_parts(app, cached(), 1).release()
    given: list[float | None] = []
    settled = Exchange.settled

    async def noted(self: Exchange, *, within: float | None = None) -> bool:
        given.append(within)
        return await settled(self, within=within)

    monkeypatch.setattr(Exchange, "settled", noted)
    async with Fleet(app, stream_timeout=3600.0) as fleet:
        assert (await fleet.get()).body == b"x" * 10
    assert given[0] is not None and given[0] < Policy().compute_timeout
