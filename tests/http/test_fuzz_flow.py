"""Whatever bytes a client or an application writes into fields: no error of ours, and nothing of it is reused that
cannot be read."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stampede_guard import CacheRoute
from stampede_guard.errors import Undecodable
from stampede_guard.http.requests.entries import base_name, target_of, target_of_url
from stampede_guard.http.requests.stored import HttpCodec, Refusal, StoredResponse
from tests.http.asgi import scope_of
from tests.http.fleet import Fleet
from tests.http.spec.test_fuzz import NAMES, VALUES

RAW = st.lists(st.tuples(NAMES, VALUES), max_size=6)
REQUEST_NAMES = st.sampled_from(
    [
        b"cache-control", b"pragma", b"range", b"if-range", b"if-none-match", b"if-modified-since", b"if-match",
        b"host", b"accept-encoding", b"cookie", b"authorization", b"content-length", b"foo", b"te",
        b"transfer-encoding",
    ]
)  # fmt: skip
ASKED = st.lists(st.tuples(REQUEST_NAMES, VALUES), max_size=4)
METHODS = st.sampled_from(["GET", "GET", "GET", "HEAD", "POST", "OPTIONS", "PUT"])
STATUSES = st.sampled_from([200, 200, 200, 204, 206, 301, 304, 404, 412, 416, 500, 599])


async def exchanged(fleet: Fleet, method: str, asked: list[tuple[bytes, bytes]]) -> tuple[int, bytes, bool]:
    """Status, body, and whether it was answered from the store."""
    scope = scope_of(method, "/", [])
    scope["headers"] += asked
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    asked_for = False

    async def receive() -> Any:
        nonlocal asked_for
        if asked_for:
            await asyncio.Event().wait()
        asked_for = True
        return {"type": "http.request", "body": b"", "more_body": False}

    await fleet.middlewares[0](scope, receive, send)
    start, *parts = messages
    assert start["type"] == "http.response.start"
    assert parts and not parts[-1].get("more_body", False)
    assert all(isinstance(name, bytes) and name == name.lower() for name, _ in start["headers"])
    ours = [value for name, value in start["headers"] if name == b"cache-status"]
    hit = bool(ours) and b"stampede_guard; hit" in ours[-1]
    return start["status"], b"".join(part["body"] for part in parts), hit


@settings(max_examples=150, deadline=None)
@given(
    RAW, STATUSES, st.lists(st.tuples(METHODS, ASKED, st.sampled_from([0, 1, 100])), min_size=2, max_size=5)
)
def test_no_bytes_make_an_error_of_an_answer(told: Any, status: int, requests: Any) -> None:
    calls = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal calls
        calls += 1
        await send({"type": "http.response.start", "status": status, "headers": list(told)})
        body = b"" if status in (204, 304) or scope["method"] == "HEAD" else b"whole"
        await send({"type": "http.response.body", "body": body})

    async def play() -> None:
        async with Fleet(app, routes=[CacheRoute("/r/*", ttl=60)]) as fleet, asyncio.timeout(60):
            for method, asked, later in requests:
                before = calls
                try:
                    found, body, hit = await exchanged(fleet, method, asked)
                except RuntimeError as error:
                    # What it said of its own length is not so; the server would say the same.
                    assert "Content-Length" in str(error)
                    continue
                assert found in {status, 200, 206, 304, 416, 504}
                assert body in b"whole" or found in (504,)
                if not hit and found != 504:
                    assert calls > before
                forbidding = {b"no-store", b"private"}
                words = [value.strip(b" \t").lower() for name, value in told if name == b"cache-control"]
                targeted = any(name == b"cdn-cache-control" for name, _ in told)
                if forbidding & set(words) and not targeted and b"must-understand" not in b"".join(words):
                    assert not hit
                fleet.clock.advance(later)

    asyncio.run(play())


@given(st.binary(max_size=80))
def test_no_bytes_of_a_store_make_an_error_of_a_read(data: bytes) -> None:
    for given_ in (data, b"H1" + data, b"H1\x9e" + data):
        try:
            found = HttpCodec().decode(given_)
        except Undecodable:
            continue
        assert isinstance(found, Refusal | StoredResponse)


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=20), st.text(max_size=20))
def test_any_target_has_a_name_or_none(path: bytes, query: bytes, host: bytes, url: str) -> None:
    scope = {"scheme": "http", "path": "/", "raw_path": path, "query_string": query}
    target = target_of(scope, ((b"host", host),))
    if target is not None:
        for route in (None, CacheRoute("/*", ttl=1), CacheRoute("/*", ttl=1, query=("a",))):
            assert base_name("p", target, route=route).isascii()
    target_of_url(url)


@given(st.lists(st.tuples(st.sampled_from("ab/?%"), st.sampled_from("ab/?%")), min_size=1, max_size=5))
def test_two_targets_share_a_name_only_if_they_are_equal(pairs: list[tuple[str, str]]) -> None:
    texts = ["".join(side) for side in zip(*pairs, strict=True)]
    targets = []
    for text in texts:
        for host in ("a", "a:80", "ab"):
            scope = {"scheme": "http", "path": "/", "raw_path": f"/{text}".encode(), "query_string": b""}
            target = target_of(scope, ((b"host", host.encode()),))
            assert target is not None
            targets += [target, replace(target, query=text)]
    for one in targets:
        for other in targets:
            assert (base_name("p", one) == base_name("p", other)) == (one == other)
