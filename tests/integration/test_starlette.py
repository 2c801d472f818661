"""Starlette: endpoints take a Request and return a Response; what lies between can be cached."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from stampede_guard import locked_cache
from stampede_guard.errors import KeyPartError, UnsupportedValue
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards
from tests.support.inside import runtimes_of


def client_of(app: Starlette) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop")


def test_an_endpoint_that_takes_a_request_is_told_how_to_give_a_key() -> None:
    with pytest.raises(KeyPartError) as caught:

        @locked_cache(ttl=300)
        async def quality(request: Request) -> dict[str, int]:
            raise NotImplementedError

    text = str(caught.value)
    assert "'request'" in text
    assert "starlette Request" in text
    assert "key=lambda request: request.headers" in text, "the path alone does not tell two users apart"
    assert caught.value.parameter == "request"


async def test_without_an_annotation_the_first_request_is_told_how_to_give_a_key(guards: Guards) -> None:
    @guards.guard().locked_cache()
    async def quality(request):  # type: ignore[no-untyped-def]
        raise NotImplementedError

    async def endpoint(request: Request) -> Response:
        return JSONResponse(await quality(request))

    async with client_of(Starlette(routes=[Route("/quality", endpoint)])) as client:
        with pytest.raises(KeyPartError, match=r"'request'.*key=lambda"):
            await client.get("/quality")


def test_an_endpoint_that_returns_a_response_is_told_to_return_data() -> None:
    with pytest.raises(UnsupportedValue, match="return the data itself"):

        @locked_cache(ttl=300, key=lambda request: request.url.path)
        async def quality(request: Request) -> JSONResponse:
            raise NotImplementedError


async def test_with_a_key_a_function_of_the_request_is_cached_by_what_the_key_says(guards: Guards) -> None:
    guard = guards.guard()
    computed = []

    @guard.locked_cache(
        key=lambda request: (request.path_params["project"], request.query_params.get("deep"))
    )
    async def quality(request: Request) -> dict[str, str]:
        computed.append(request.headers.get("x-user"))
        return {"project": request.path_params["project"]}

    async def endpoint(request: Request) -> Response:
        return JSONResponse(await quality(request))

    async with client_of(Starlette(routes=[Route("/quality/{project}", endpoint)])) as client:
        for url in ("/quality/7", "/quality/7?ignored=1", "/quality/7?deep=1", "/quality/8"):
            answer = await client.get(url)
            assert answer.json() == {"project": url.removeprefix("/quality/")[0]}
    assert len(computed) == 3


async def test_what_takes_a_request_is_computed_within_a_request_and_handed_over_when_it_leaves(
    guards: Guards,
) -> None:
    guard, gate = guards.guard(), Gate()
    users = []

    @guard.locked_cache(key=lambda request: request.url.path)
    async def body_length(request: Request) -> int:
        users.append(request.headers["x-user"])
        await gate.hold()
        return len(await request.body())

    async def endpoint(request: Request) -> Response:
        return JSONResponse(await body_length(request))

    async with client_of(Starlette(routes=[Route("/length", endpoint, methods=["POST"])])) as client:

        def send(user: str, content: str) -> asyncio.Task[httpx.Response]:
            return asyncio.create_task(client.post("/length", headers={"X-User": user}, content=content))

        leader = send("ann", "four")
        await gate.arrival()
        passenger = send("bob", "eleven more")
        await until(lambda: sum(flight.joined for flight in guard.engine.runtime().flights.values()) == 2)
        leader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leader
        await gate.arrival()
        gate.open()
        assert (await soon(passenger)).json() == 11
    assert users == ["ann", "bob"]


async def test_starlettes_own_http_exception_reaches_other_processes_as_it_is(guards: Guards) -> None:
    computed = []

    def app() -> Starlette:
        @guards.guard(error_ttl=60).locked_cache(name="quality")
        async def quality(project: str) -> int:
            computed.append(project)
            raise HTTPException(410, "gone for good", {"X-Project": project})

        async def endpoint(request: Request) -> Response:
            return JSONResponse(await quality(request.path_params["project"]))

        return Starlette(routes=[Route("/quality/{project}", endpoint)])

    for worker in (app(), app()):
        async with client_of(worker) as client:
            answer = await client.get("/quality/7")
            assert (answer.status_code, answer.text) == (410, "gone for good")
            assert answer.headers["X-Project"] == "7"
    assert computed == ["7"]


async def test_install_answers_503_and_closes_with_the_app(guards: Guards) -> None:
    guard, gate = guards.guard(wait_timeout=0.5, fallback_limit=0), Gate()

    @guard.locked_cache()
    async def slow() -> int:
        await gate.hold()
        return 1

    async def endpoint(request: Request) -> Response:
        return JSONResponse(await slow())

    app = Starlette(routes=[Route("/slow", endpoint)])
    guard.install(app)
    async with app.router.lifespan_context(app), client_of(app) as client:
        leader = asyncio.create_task(client.get("/slow"))
        await gate.arrival()
        answer = await soon(client.get("/slow"))
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        gate.open()
        await soon(leader)
    assert runtimes_of(guard) == {}
