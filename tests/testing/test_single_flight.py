"""`assert_single_flight` on functions and endpoints: it passes for one computation, and says why when it does not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import fastapi
import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Mount, Route

from stampede_guard import Misuse, StampedeGuard, StampedeMiddleware
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing import Response, assert_single_flight


class Shop:
    """An application with endpoints that are cached, that call what is cached, and that are not cached."""

    def __init__(self) -> None:
        self.guard = StampedeGuard(MemoryStore(), namespace="shop")
        self.computed = 0
        self.lifespan: list[str] = []
        self.app = fastapi.FastAPI(lifespan=self._lifespan)
        self.guard.install(self.app)
        self.quality = self.guard.locked_cache(ttl=300)(self._quality)
        self.app.get("/quality")(self.quality)
        self.app.get("/through/{project}")(self._through)
        self.app.get("/plain")(self._plain)
        self.app.get("/broken")(self._broken)
        self.app.get("/tenant")(self._tenant)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: fastapi.FastAPI) -> AsyncIterator[dict[str, str]]:
        self.lifespan.append("up")
        yield {"database": "open"}
        self.lifespan.append("down")

    @staticmethod
    async def _quality(project: int) -> dict[str, int]:
        await asyncio.sleep(0)
        if project == 0:
            raise fastapi.HTTPException(404, "no such project")
        return {"project": project}

    async def _through(self, project: int, request: fastapi.Request) -> dict[str, Any]:
        assert request.state.database == "open"
        return await self.quality(project)

    async def _plain(self) -> int:
        self.computed += 1
        return 1

    async def _broken(self) -> None:
        self.computed += 1
        raise fastapi.HTTPException(503)

    async def _tenant(self, request: fastapi.Request) -> str:
        self.computed += 1
        return request.headers["x-tenant"]


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def test_an_endpoint_that_is_cached_passes_and_needs_no_further_word(shop: Shop) -> None:
    result = await assert_single_flight(shop.app, "/quality?project=7", callers=20, workers=4)
    assert (result.computations, result.callers, result.workers) == (1, 20, 4)
    answer = result.values[0]
    assert isinstance(answer, Response)
    assert (answer.status_code, answer.content) == (200, b'{"project":7}')
    assert answer.headers["content-type"] == "application/json"


async def test_an_applications_lifespan_runs_around_the_herd_once(shop: Shop) -> None:
    await assert_single_flight(shop.app, "/through/7", computes=shop.quality, callers=8, workers=2)
    assert shop.lifespan == ["up", "down"]


async def test_a_clients_lifespan_is_its_own(shop: Shop) -> None:
    transport = httpx.ASGITransport(shop.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        result = await assert_single_flight(client, "/quality?project=7", computes=shop.quality)
    assert (result.computations, result.values[0].json()) == (1, {"project": 7})
    assert shop.lifespan == []
    await shop.guard.aclose()


@pytest.mark.parametrize("by", ["application", "client", "middleware", "mounted"])
async def test_the_endpoints_of_included_routers_are_found_wherever_the_application_is(
    shop: Shop, by: str
) -> None:
    router = fastapi.APIRouter()
    router.get("/included")(shop.guard.locked_cache(ttl=300, name="included")(shop._quality))
    target: Any = fastapi.FastAPI()
    target.include_router(router)
    match by:
        case "middleware":
            target = StampedeMiddleware(target, guard=shop.guard)
        case "client":
            target = httpx.AsyncClient(transport=httpx.ASGITransport(target), base_url="http://shop")
        case "mounted":
            target = Starlette(routes=[Mount("/", target)])
    assert (await assert_single_flight(target, "/included?project=7")).computations == 1
    await shop.guard.aclose()


async def test_an_endpoint_that_calls_another_one_is_computed_once_and_so_is_the_other(shop: Shop) -> None:
    computed = []

    @shop.app.get("/twice/{project}")
    @shop.guard.locked_cache(ttl=300, name="twice")
    async def twice(project: int) -> int:
        computed.append(project)
        return 2 * (await shop.quality(project))["project"]

    result = await assert_single_flight(shop.app, "/twice/7", callers=20)
    assert (result.computations, computed) == (1, [7])
    with pytest.raises(AssertionError, match="each of the 2 cached endpoints was not computed at all"):
        await assert_single_flight(shop.app, "/plain")
    twice.set_mode("bypass")
    with pytest.raises(AssertionError, match=r"^twice was computed 4 times for 20 callers in 4 workers"):
        await assert_single_flight(shop.app, "/twice/8", callers=20, workers=4)


async def test_a_client_that_does_not_tell_its_application_needs_the_function(shop: Shop) -> None:
    async with httpx.AsyncClient(base_url="http://shop") as client:
        with pytest.raises(Misuse, match="this AsyncClient does not tell its application"):
            await assert_single_flight(client, "/quality?project=7")


async def test_a_cached_function_passes_on_its_own(shop: Shop) -> None:
    assert (await assert_single_flight(shop.quality, args=(7,))).computations == 1
    await shop.guard.aclose()


async def test_an_endpoint_that_is_not_protected_fails_with_the_number(shop: Shop) -> None:
    with pytest.raises(
        AssertionError, match=r"was computed 20 times for 20 callers in 4 workers, and should have"
    ):
        await assert_single_flight(shop.app, "/plain", callers=20, workers=4, computes=lambda: shop.computed)


async def test_a_lock_for_each_worker_fails_with_one_computation_for_each(shop: Shop) -> None:
    shop.quality.set_mode("bypass")
    with pytest.raises(AssertionError, match="was computed 4 times for 20 callers in 4 workers"):
        await assert_single_flight(shop.app, "/quality?project=7", callers=20, workers=4)


async def test_an_entry_that_is_there_already_is_no_proof(shop: Shop) -> None:
    await shop.quality(7)
    with pytest.raises(AssertionError, match=r"was not computed at all .* had status 200"):
        await assert_single_flight(shop.app, "/quality?project=7")


async def test_a_mistyped_path_is_told_from_its_status(shop: Shop) -> None:
    with pytest.raises(AssertionError, match=r"was not computed at all .* had status 422"):
        await assert_single_flight(shop.app, "/quality?project=seven")


async def test_an_answer_that_all_share_may_be_that_there_is_nothing(shop: Shop) -> None:
    result = await assert_single_flight(shop.app, "/quality?project=0")
    assert {answer.status_code for answer in result.values} == {404}


async def test_an_answer_of_500_or_above_fails_even_if_it_was_computed_once(shop: Shop) -> None:
    with pytest.raises(
        AssertionError,
        match=r"some of 2 callers in 1 workers were not served.*503.*Expected: .* was computed .* Ask for",
    ):
        await assert_single_flight(
            shop.app, "/broken", callers=2, workers=1, computes=lambda: min(shop.computed, 1)
        )


async def test_an_error_of_a_function_fails_with_the_error_as_its_cause(shop: Shop) -> None:
    with pytest.raises(
        AssertionError, match=r"50 of 50 callers .* the first of them HTTPException"
    ) as failed:
        await assert_single_flight(shop.quality, args=(0,))
    assert isinstance(failed.value.__cause__, fastapi.HTTPException)
    await shop.guard.aclose()


async def test_headers_reach_the_endpoint(shop: Shop) -> None:
    result = await assert_single_flight(
        shop.app,
        "/tenant",
        headers={"X-Tenant": "acme"},
        callers=1,
        workers=1,
        computes=lambda: shop.computed,
    )
    assert result.values[0].content == b'"acme"' and result.values[0].text == '"acme"'
    assert result.values[0].json() == "acme"


async def test_starlette_and_streams_are_served_and_read_to_their_end() -> None:
    computed = 0
    guard = StampedeGuard(MemoryStore())

    async def compute() -> str:
        nonlocal computed
        computed += 1
        return "ab"

    async def stream(request: Any) -> StreamingResponse:
        text = await guard.get_or_compute("letters", compute)

        async def letters() -> AsyncIterator[str]:
            for letter in text:
                yield letter

        return StreamingResponse(letters())

    app = Starlette(routes=[Route("/letters", stream)])
    result = await assert_single_flight(app, "/letters", callers=6, workers=3, computes=lambda: computed)
    assert {answer.content for answer in result.values} == {b"ab"}
    await guard.aclose()


async def test_an_application_that_knows_no_lifespan_is_asked_all_the_same() -> None:
    computed = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal computed
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])
        computed += 1
        await PlainTextResponse(scope["path"])(scope, receive, send)

    result = await assert_single_flight(app, "/a%20b", callers=1, workers=1, computes=lambda: computed)
    assert result.values[0].content == b"/a b"


async def test_an_application_that_does_not_start_says_why() -> None:
    async def fails(app: Any) -> AsyncIterator[None]:
        raise LookupError("no database")
        yield

    app = Starlette(lifespan=contextlib.asynccontextmanager(fails))
    with pytest.raises(Misuse, match="the application did not start: LookupError: no database"):
        await assert_single_flight(app, "/", computes=lambda: 0)


class Client:
    def request(self, method: str, path: str) -> None:
        """One answer at a time, as that of `TestClient` does."""


async def silent(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})


async def test_an_application_without_an_answer_is_an_error() -> None:
    with pytest.raises(AssertionError, match="gave no answer to GET /"):
        await assert_single_flight(silent, "/", computes=lambda: 0)


async def test_what_cannot_be_asked_or_counted_is_refused_with_what_to_write(shop: Shop) -> None:
    async def refused(says: str, *args: Any, **kwargs: Any) -> None:
        with pytest.raises(Misuse, match=says):
            await assert_single_flight(*args, **kwargs)

    await refused("computes= is needed here", silent, "/")
    await refused("a Client asks one after the other", Client(), "/", computes=shop.quality)
    await refused("for a function leave the path out", shop.quality, "/", computes=shop.quality)
    await refused("path=7 is not allowed", shop.app, 7)
    await refused("an endpoint gets everything through its path", shop.app, "/", args=(7,))
    await refused("workers=0 is not allowed", shop.app, "/", workers=0)
    await refused(r"herd\(\) cannot tell what", shop.app)


def test_in_a_plain_test_it_runs_a_loop_of_its_own(shop: Shop) -> None:
    from stampede_guard.testing.either import in_either_test

    result = in_either_test(assert_single_flight)(shop.app, "/quality?project=7", callers=8, workers=2)
    assert not asyncio.iscoroutine(result)


async def test_the_text_for_failed_callers_says_what_was_expected_and_what_to_look_at() -> None:
    async with StampedeGuard(MemoryStore(), namespace="failing") as guard:

        @guard.locked_cache(ttl=60)
        async def load() -> int:
            raise LookupError("no such project")

        with pytest.raises(AssertionError) as raised:
            await assert_single_flight(load, callers=3, workers=1)
        told = str(raised.value)
        for part in (
            "3 of 3 callers",
            "LookupError: no such project",
            "was computed",
            "Expected: one",
            "one call alone",
        ):
            assert part in told, told
