"""A POST is the application's, unless a route says that it is a question."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import CacheRoute
from tests.http.asgi import request
from tests.http.fleet import App, Fleet, start, status_of
from tests.http.suite.play import Answer
from tests.http.test_herd import joined

QUESTION = b'{"query": "{ reports { id } }"}'
ROUTE = CacheRoute("/graphql", ttl=60, methods=("POST",))


def echoing(headers: dict[str, str] | None = None) -> App:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        await app.go.wait()
        await start(send, headers or {})
        await send({"type": "http.response.body", "body": b"%d:" % number + body})

    app.handler = handler
    return app


async def post(fleet: Fleet, body: bytes = QUESTION, path: str = "/graphql", **fields: str) -> Answer:
    pairs = [("content-type", "application/json")]
    pairs += [(name.replace("_", "-"), value) for name, value in fields.items()]
    return await request(fleet.middlewares[0], "POST", path, fields=pairs, body=body)


async def test_a_post_that_no_route_names_is_never_answered_from_the_store() -> None:
    app = echoing({"cache-control": "public, max-age=60"})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60)]) as fleet:
        assert [(await post(fleet)).body[:2] for _ in range(2)] == [b"1:", b"2:"]


async def test_a_post_by_route_is_one_call_for_each_body() -> None:
    app = echoing()
    async with Fleet(app, routes=[ROUTE]) as fleet:
        first, again = await post(fleet), await post(fleet)
        assert first.body == again.body == b"1:" + QUESTION
        assert "hit; ttl=60" in status_of(again)
        assert (await post(fleet, b"{}")).body == b"2:{}"
        assert (await post(fleet)).body == first.body
        assert app.calls == 2
        fleet.clock.advance(61)
        assert (await post(fleet)).body == b"3:" + QUESTION


async def test_a_body_of_another_type_is_another_question() -> None:
    app = echoing()
    async with Fleet(app, routes=[ROUTE]) as fleet:
        await post(fleet)
        other = await request(fleet.middlewares[0], "POST", "/graphql", body=QUESTION)
        assert other.body == b"2:" + QUESTION


async def test_a_get_of_the_same_url_and_a_post_are_apart() -> None:
    app = echoing()
    route = CacheRoute("/graphql", ttl=60, methods=("GET", "POST"))
    async with Fleet(app, routes=[route]) as fleet:
        await post(fleet, b"")
        assert (await fleet.get("/graphql")).body == b"2:"


async def test_a_herd_of_posts_costs_one_call_and_each_question_has_its_own_answer() -> None:
    app = echoing()
    app.go.clear()
    async with Fleet(app, routes=[ROUTE]) as fleet:
        herd = [asyncio.ensure_future(post(fleet, b"%d" % (n % 2))) for n in range(20)]
        await joined(fleet, 20)
        app.go.set()
        answers = await asyncio.gather(*herd)
        assert [answer.body[2:] for answer in answers] == [b"0", b"1"] * 10
        assert app.calls == 2


async def test_a_post_whose_answer_says_no_store_is_carried_out_once_for_each() -> None:
    app = echoing({"cache-control": "no-store"})
    async with Fleet(app, routes=[ROUTE]) as fleet:
        herd = [asyncio.ensure_future(post(fleet, b"mutation")) for _ in range(10)]
        answers = await asyncio.gather(*herd)
        assert {answer.body for answer in answers} == {b"%d:mutation" % n for n in range(1, 11)}
        assert app.calls == 10


async def test_what_the_key_function_does_not_want_is_an_unsafe_request_with_its_body() -> None:
    app = echoing()

    def key(scope: Any) -> str | None:
        return None if b"mutation" in scope["body"] else "q"

    route = CacheRoute("/graphql", ttl=60, methods=("POST",), key=key)
    async with Fleet(app, routes=[route]) as fleet:
        answers = [await post(fleet, b"mutation") for _ in range(2)]
        assert [answer.body for answer in answers] == [b"1:mutation", b"2:mutation"]
        assert all("fwd=method" in status_of(answer) for answer in answers)
        await post(fleet)
        assert "hit" in status_of(await post(fleet))


async def test_a_body_over_the_bound_goes_past_the_route_whole() -> None:
    app = echoing()
    body = b"x" * 1001
    async with Fleet(app, routes=[ROUTE], max_request_bytes=1000) as fleet:
        for _ in range(2):
            answer = await post(fleet, body)
            assert answer.body.endswith(b":" + body)
            assert "fwd=method" in status_of(answer)
        chunked = await request(fleet.middlewares[0], "POST", "/graphql", body=body, announced=False)
        assert chunked.body == b"3:" + body


@pytest.mark.parametrize(
    "field", ["cookie", "authorization", "x_api_key", "if_none_match", "range", "x_http_method_override"]
)
async def test_a_post_with_credentials_conditions_or_another_method_goes_past_the_route(field: str) -> None:
    app = echoing()
    async with Fleet(app, routes=[ROUTE]) as fleet:
        await post(fleet)
        assert (await post(fleet, **{field: "mine"})).body[:2] == b"2:"
        assert (await post(fleet)).body[:2] == b"1:"


async def test_a_post_that_means_another_method_is_carried_out_each_time_and_poisons_nothing() -> None:
    app = echoing()
    async with Fleet(app, routes=[ROUTE]) as fleet:
        for number in (1, 2):
            deleted = await post(fleet, x_http_method_override="DELETE")
            assert deleted.body == b"%d:" % number + QUESTION
            assert "fwd=method" in status_of(deleted)
        assert (await post(fleet)).body[:2] == b"3:"


async def test_a_stale_post_is_renewed_with_its_own_body() -> None:
    app = echoing()
    route = CacheRoute("/graphql", ttl=10, stale_ttl=60, methods=("POST",))
    async with Fleet(app, routes=[route]) as fleet:
        await post(fleet)
        fleet.clock.advance(20)
        assert (await post(fleet)).body[:2] == b"1:"
        await fleet.settled()
        assert (await post(fleet)).body == b"2:" + QUESTION


async def test_a_post_is_never_made_conditional_and_never_carried_out_twice() -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        assert b"if-none-match" not in dict(scope["headers"])
        await start(send, {"cache-control": "max-age=10", "etag": '"a"'}, 200 if number == 1 else 304)
        await send({"type": "http.response.body", "body": b"whole" if number == 1 else b""})

    app.handler = handler
    async with Fleet(app, routes=[ROUTE]) as fleet:
        assert (await post(fleet)).body == b"whole"
        fleet.clock.advance(20)
        for number in (2, 3):
            assert (await post(fleet)).status == 304
            assert app.calls == number
