"""The answer to a POST that is stored for GETs (RFC 9110, 9.3.3), and lengths that nobody can compare with a body."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.http.fleet import App, Fleet, cached, start, status_of


class SlowPosts(App):
    """Its answers to POSTs stop in the middle until `more` is set. All others are whole at once."""

    def __init__(self, length: str = "") -> None:
        super().__init__()
        self.begun, self.more = asyncio.Event(), asyncio.Event()
        self.length = length
        self.handler = self._answer

    async def _answer(self, scope: Any, receive: Any, send: Any, number: int) -> None:
        if scope["method"] != "POST":
            await start(send, cached())
            await send({"type": "http.response.body", "body": b"new"})
            return
        told = {"content_length": self.length} if self.length else {}
        await start(send, cached(content_location="/", **told))
        await send({"type": "http.response.body", "body": b"ol", "more_body": True})
        self.begun.set()
        await self.more.wait()
        await send({"type": "http.response.body", "body": b"d"})


@pytest.mark.parametrize("what", ["purge", "PUT"])
async def test_what_changes_before_its_end_makes_it_outdated(what: str) -> None:
    app = SlowPosts()
    async with Fleet(app, processes=2) as fleet:
        posting = asyncio.ensure_future(fleet.get(method="POST"))
        await app.begun.wait()
        if what == "purge":
            await fleet.middlewares[1].purge(url="http://example.test/")
        else:
            await fleet.get(method=what, process=1)
        app.more.set()
        assert (await posting).body == b"old"
        assert (await fleet.get()).body == b"new"


async def test_it_is_as_old_as_its_first_line() -> None:
    app = SlowPosts()
    async with Fleet(app) as fleet:
        posting = asyncio.ensure_future(fleet.get(method="POST"))
        await app.begun.wait()
        fleet.clock.advance(20)
        app.more.set()
        await posting
        answer = await fleet.get()
        assert (answer.body, answer.get("age")) == (b"old", "20")


@pytest.mark.parametrize("length", ["2", "4"])
async def test_it_is_not_stored_with_another_length(length: str) -> None:
    app = SlowPosts(length)
    app.more.set()
    async with Fleet(app) as fleet:
        await fleet.get(method="POST")
        assert (await fleet.get()).body == b"new"


@pytest.mark.parametrize("lengths", [["8", "8"], ["7", "8"], ["00000000000000000000008"], ["9" * 20], ["+8"]])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_length_that_is_no_number_or_there_twice_is_not_stored(
    lengths: list[str], method: str
) -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        told = cached(content_location="/").items()
        headers = [(name.encode(), value.encode()) for name, value in told]
        headers += [(b"content-length", length.encode()) for length in lengths]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"answer %d" % number})

    app.handler = handler
    async with Fleet(app) as fleet:
        await fleet.get(method=method)
        assert "stored" not in status_of(await fleet.get())
        assert app.calls == 2


async def test_a_clock_that_is_set_back_meanwhile_makes_it_fresh_for_no_longer() -> None:
    app = SlowPosts()
    async with Fleet(app) as fleet:
        cache = fleet.middlewares[0].cache
        posting = asyncio.ensure_future(fleet.get(method="POST"))
        await app.begun.wait()
        cache.now = lambda: fleet.clock() - 3600
        app.more.set()
        await posting
        assert "hit; ttl=60" in status_of(await fleet.get())


async def test_an_answer_to_a_post_that_means_another_method_is_stored_for_no_get() -> None:
    app = App(cached(content_location="/"))
    async with Fleet(app) as fleet:
        await fleet.get(method="POST", x_http_method_override="DELETE")
        assert (await fleet.get()).body == b"answer 2"


@pytest.mark.parametrize(
    ("location", "stored"),
    [
        ("http://example.test/", True),
        ("https://example.test/", True),
        ("/other", False),
        ("https://other.test/", False),
        ("http://[", False),
        ("https://example.test:81/", False),
    ],
)
async def test_it_is_stored_only_if_it_is_the_answer_to_a_get_of_its_own_url(
    location: str, stored: bool
) -> None:
    """Behind a proxy that ends TLS, its own URL is what the client wrote."""
    app = App(cached(content_location=location))
    async with Fleet(app) as fleet:
        await fleet.get(method="POST", x_forwarded_proto="https")
        assert ("hit" in status_of(await fleet.get(x_forwarded_proto="https"))) is stored
