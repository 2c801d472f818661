"""QUERY (RFC 10008): a safe request whose body is the question."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import CacheRoute
from tests.http.asgi import request
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.http.suite.play import Answer
from tests.http.test_herd import joined
from tests.http.test_traps_post import echoing

QUESTION = b'{"select": "id", "where": {"a": 1}}'


async def query(
    fleet: Fleet,
    body: bytes = QUESTION,
    path: str = "/rows",
    *,
    process: int = 0,
    method: str = "QUERY",
    **fields: str,
) -> Answer:
    pairs = [("content-type", fields.pop("content_type", "application/json"))]
    pairs += [(name.replace("_", "-"), value) for name, value in fields.items()]
    return await request(fleet.middlewares[process], method, path, fields=pairs, body=body)


async def test_a_query_is_one_call_for_each_body_by_the_applications_own_fields() -> None:
    app = echoing(cached())
    async with Fleet(app, processes=2) as fleet:
        first, again = await query(fleet), await query(fleet, process=1)
        assert first.body == again.body == b"1:" + QUESTION
        assert "hit" in status_of(again)
        assert (await query(fleet, b"{}")).body == b"2:{}"
        assert (await query(fleet, content_type="text/plain")).body[:2] == b"3:"
        assert (await query(fleet, content_encoding="gzip")).body[:2] == b"4:"
        assert (await query(fleet, path="/rows?x")).body[:2] == b"5:"
        assert "hit" not in status_of(await fleet.get("/rows"))
        assert (await query(fleet, host="other.example")).body[:2] == b"7:"


async def test_without_a_field_that_allows_it_nothing_is_stored_unless_a_route_says_so() -> None:
    app = echoing({})
    async with Fleet(app, routes=[CacheRoute("/by/*", ttl=60, methods=("QUERY",))]) as fleet:
        assert [(await query(fleet)).body[:2] for _ in range(2)] == [b"1:", b"2:"]
        assert [(await query(fleet, path="/by/route")).body[:2] for _ in range(2)] == [b"3:", b"3:"]
        assert (await query(fleet, path="/by/route", cookie="a=b")).body[:2] == b"4:"
        assert (await query(fleet, path="/by/route", method="POST")).body[:2] == b"5:"


async def test_a_herd_of_one_question_is_one_call() -> None:
    app = echoing(cached())
    async with Fleet(app, processes=2) as fleet:
        app.go.clear()
        herd = [asyncio.ensure_future(query(fleet, process=number % 2)) for number in range(20)]
        await joined(fleet, 20)
        app.go.set()
        assert {answer.body for answer in await asyncio.gather(*herd)} == {b"1:" + QUESTION}
        assert app.calls == 1


async def test_an_unsafe_request_invalidates_all_questions_of_its_url_in_all_processes() -> None:
    app = echoing(cached())
    async with Fleet(app, processes=2) as fleet:
        for body in (b"1", b"2"):
            await query(fleet, body)
        await query(fleet, b"1", path="/else")
        await query(fleet, b"1", host="other.example")
        await fleet.get("/rows", method="DELETE", process=1)
        for body in (b"1", b"2"):
            assert "hit" not in status_of(await query(fleet, body))
        assert "hit" in status_of(await query(fleet, b"1", path="/else"))
        assert "hit" in status_of(await query(fleet, b"1", host="other.example"))


async def test_an_answer_from_before_the_change_serves_no_later_question() -> None:
    app = App(cached())
    async with Fleet(app) as fleet:
        app.go.clear()
        early = asyncio.ensure_future(query(fleet))
        await app.called.wait()
        app.called.clear()
        changing = asyncio.ensure_future(fleet.get("/rows", method="DELETE"))
        await app.called.wait()
        app.go.set()
        await changing
        assert (await early).body == b"answer 1"
        assert (await query(fleet)).body == b"answer 3"


async def test_a_private_answer_or_one_for_a_credential_is_nobody_elses() -> None:
    app = echoing({"cache-control": "private, max-age=60"})
    async with Fleet(app) as fleet:
        assert [(await query(fleet)).body[:2] for _ in range(2)] == [b"1:", b"2:"]
    app = echoing(cached())
    async with Fleet(app) as fleet:
        assert (await query(fleet, authorization="one")).body[:2] == b"1:"
        assert (await query(fleet)).body[:2] == b"2:"


async def test_a_question_that_is_too_long_or_has_a_range_is_the_applications() -> None:
    app = echoing(cached())
    async with Fleet(app, max_request_bytes=10) as fleet:
        for _ in range(2):
            answer = await query(fleet, b"x" * 11)
            assert answer.body[2:] == b"x" * 11
            assert "fwd=bypass" in status_of(answer)
        unannounced = await request(fleet.middlewares[0], "QUERY", "/rows", body=b"y" * 11, announced=False)
        assert unannounced.body[2:] == b"y" * 11
        await query(fleet, b"z", range="bytes=0-1")
        await query(fleet, b"z", cache_control="no-store")
        await query(fleet, b"z", x_http_method_override="DELETE")
        assert app.calls == 6


async def test_a_condition_is_answered_from_the_store_and_a_stale_answer_is_validated() -> None:
    app = App(cached(etag='"a"'))

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        asked = dict(scope["headers"]).get(b"if-none-match")
        assert (await receive())["body"] == QUESTION
        await start(send, app.headers, 304 if asked == b'"a"' else 200)
        await send({"type": "http.response.body", "body": b"" if asked == b'"a"' else b"rows"})

    app.handler = handler
    async with Fleet(app) as fleet:
        assert (await query(fleet)).body == b"rows"
        assert (await query(fleet, if_none_match='"a"')).status == 304
        assert app.calls == 1
        fleet.clock.advance(61)
        answer = await query(fleet)
        assert (answer.status, answer.body, app.calls) == (200, b"rows", 2)
        assert "fwd=stale; fwd-status=304; stored" in status_of(answer)


@pytest.mark.parametrize("json_bodies", [False, True])
async def test_spellings_of_one_json_value_are_one_question_if_that_is_wanted(json_bodies: bool) -> None:
    app = echoing(cached())
    async with Fleet(app, json_bodies=json_bodies) as fleet:
        await query(fleet, b'{"a":1,"b":2}')
        answer = await query(fleet, b'{"b": 2, "a": 1}')
        assert ("hit" in status_of(answer)) is json_bodies
        await query(fleet, b'{"b": 2, "a": 1.0}')
        assert app.calls == (2 if json_bodies else 3)


async def test_a_purge_of_the_url_takes_all_questions() -> None:
    app = echoing(cached())
    async with Fleet(app) as fleet:
        await query(fleet)
        assert "hit" in status_of(await query(fleet))
        await fleet.middlewares[0].purge(url="/rows")
        assert "hit" not in status_of(await query(fleet))
