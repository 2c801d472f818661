"""FastAPI endpoints under `@app.get` and `@locked_cache`: what they were before, and cached."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import fastapi
import httpx
import pydantic
import pytest
from fastapi import Body, Depends, FastAPI, Header, HTTPException, Path, Query

from stampede_guard import StampedeGuard, locked_cache
from stampede_guard.errors import KeyPartError, Misuse, UnsupportedValue
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards, joined
from tests.support.inside import last_used_of


@contextlib.asynccontextmanager
async def client_of(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
        yield client


Decorate = Callable[[Any], Any]


def plain(function: Any) -> Any:
    return function


# --- endpoints as people write them ---------------------------------------------------------------------

calls: list[str] = []


@pytest.fixture(autouse=True)
def no_calls() -> Iterator[None]:
    calls.clear()
    yield
    Session.opened = 0


class Quality(pydantic.BaseModel):
    project: int
    good: int = pydantic.Field(description="rows of a good quality")
    label: str | None = None


class Filter(pydantic.BaseModel):
    least: int = 0
    tags: list[str] = []


class User(pydantic.BaseModel):
    name: str


async def current_user(x_user: Annotated[str, Header()] = "nobody") -> User:
    return User(name=x_user)


class Session:
    opened = 0

    def __init__(self) -> None:
        Session.opened += 1
        self.open = True

    def count(self, project: int) -> int:
        if not self.open:
            raise RuntimeError("this session is used after its request")
        return project * 10


async def session() -> AsyncIterator[Session]:
    made = Session()
    try:
        yield made
    finally:
        made.open = False


UserDep = Annotated[User, Depends(current_user)]
SessionDep = Annotated[Session, Depends(session)]


async def by_path(project: int) -> Quality:
    calls.append("by_path")
    return Quality(project=project, good=project * 10)


async def by_query(
    project: Annotated[int, Query(ge=1, description="which")], deep: bool = False, tag: str | None = None
) -> dict[str, Any]:
    """The quality, by query."""
    calls.append("by_query")
    return {"project": project, "deep": deep, "tag": tag}


async def by_body(
    chosen: Filter, note: Annotated[str, Body(embed=True)] = "", version: int = Path(ge=1)
) -> list[Quality]:
    calls.append("by_body")
    return [Quality(project=version, good=chosen.least, label=f"{note}{chosen.tags}")]


async def by_user(user: UserDep, project: int = 1) -> str:
    calls.append("by_user")
    return f"{user.name} sees {project}"


async def by_session(project: int, db: SessionDep) -> int:
    calls.append("by_session")
    return db.count(project)


async def missing(project: int) -> Quality:
    calls.append("missing")
    raise HTTPException(404, {"reason": "no such project", "project": project}, {"X-Project": str(project)})


def shop(decorate: Callable[..., Any]) -> FastAPI:
    app = FastAPI()
    app.get("/path/{project}")(decorate()(by_path))
    app.get("/query")(decorate()(by_query))
    app.post("/body/{version}")(decorate()(by_body))
    app.get("/user")(decorate()(by_user))
    app.get("/session/{project}")(decorate(unkeyed=("db",))(by_session))
    app.get("/missing/{project}")(decorate()(missing))
    return app


def undecorated(**_: Any) -> Decorate:
    return plain


REQUESTS: list[dict[str, Any]] = [
    {"method": "GET", "url": "/path/7"},
    {"method": "GET", "url": "/query?project=7"},
    {"method": "GET", "url": "/query?project=7&deep=1&tag=x"},
    {"method": "POST", "url": "/body/3", "json": {"chosen": {"least": 5, "tags": ["a"]}, "note": "n"}},
    {"method": "GET", "url": "/user", "headers": {"X-User": "ann"}},
    {"method": "GET", "url": "/session/4"},
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request["url"])
async def test_an_endpoint_answers_as_without_the_decorator_and_computes_once_fleet_wide(
    guards: Guards, request_: dict[str, Any]
) -> None:
    async with client_of(shop(undecorated)) as client:
        expected = await client.request(**request_)
    assert expected.status_code == 200
    calls.clear()
    for guard in (guards.guard(), guards.guard()):
        async with client_of(shop(guard.locked_cache)) as client:
            for _ in range(2):
                answer = await client.request(**request_)
                assert (answer.status_code, answer.content) == (200, expected.content)
                assert answer.headers == expected.headers
    assert len(calls) == 1


def test_the_openapi_schema_is_the_one_without_the_decorator() -> None:
    guard = StampedeGuard.from_url("memory://")
    schema = shop(guard.locked_cache).openapi()
    assert schema == shop(undecorated).openapi()
    assert "Quality" in schema["components"]["schemas"], "the response model comes from the annotation"
    assert shop(locked_cache).openapi() == schema


@pytest.mark.parametrize(
    "request_",
    [
        {"method": "GET", "url": "/path/seven"},
        {"method": "GET", "url": "/query"},
        {"method": "GET", "url": "/query?project=0"},
        {"method": "POST", "url": "/body/3", "json": {"chosen": {"least": "many"}}},
        {"method": "POST", "url": "/body/0", "json": {"chosen": {}}},
    ],
    ids=lambda request: request["url"],
)
async def test_bad_input_is_a_422_as_without_the_decorator_and_nothing_is_computed(
    guards: Guards, request_: dict[str, Any]
) -> None:
    async with client_of(shop(undecorated)) as client:
        expected = await client.request(**request_)
    async with client_of(shop(guards.guard().locked_cache)) as client:
        answer = await client.request(**request_)
    assert (answer.status_code, answer.json()) == (422, expected.json())
    assert calls == []


async def test_two_users_never_share_an_entry_because_a_dependency_was_skipped(guards: Guards) -> None:
    async with client_of(shop(guards.guard().locked_cache)) as client:
        answers = [
            (await client.get("/user", headers={"X-User": user})).json() for user in ("ann", "bob", "ann")
        ]
    assert answers == ["ann sees 1", "bob sees 1", "ann sees 1"]
    assert len(calls) == 2


async def test_a_burst_of_requests_to_two_workers_is_one_computation(guards: Guards) -> None:
    gate = Gate()

    async def slow(project: int) -> Quality:
        await gate.hold()
        return Quality(project=project, good=1)

    workers = []
    for guard in (guards.guard(), guards.guard()):
        app = FastAPI()
        app.get("/slow/{project}")(guard.locked_cache(name="slow")(slow))
        workers.append((guard, app))
    async with client_of(workers[0][1]) as one, client_of(workers[1][1]) as two:
        requests = [asyncio.create_task(client.get("/slow/7")) for client in (one, two) * 20]
        await gate.arrival()
        for guard, _ in workers:
            await until(lambda: sum(f.joined for f in guard.engine.runtime().flights.values()) == 20)  # noqa: B023
        gate.open()
        answers = await soon(asyncio.gather(*requests))
    assert {answer.json()["project"] for answer in answers} == {7}
    assert gate.entered == 1


async def test_an_http_exception_is_the_same_for_leader_passengers_and_other_processes(
    guards: Guards,
) -> None:
    gate = Gate()

    async def slowly_missing(project: int) -> Quality:
        await gate.hold()
        return await missing(project)

    here, there = guards.guard(error_ttl=60), guards.guard()
    apps = []
    for guard in (here, there):
        app = FastAPI()
        app.get("/missing/{project}")(guard.locked_cache(name="missing")(slowly_missing))
        apps.append(app)
    async with client_of(apps[0]) as one, client_of(apps[1]) as two:
        requests = [asyncio.create_task(client.get("/missing/7")) for client in (one, one, two, two)]
        await gate.arrival()
        await until(lambda: sum(f.joined for f in here.engine.runtime().flights.values()) == 2)
        gate.open()
        answers = await soon(asyncio.gather(*requests))
        answers.append(await two.get("/missing/7"))
    for answer in answers:
        assert answer.status_code == 404
        assert answer.json() == {"detail": {"reason": "no such project", "project": 7}}
        assert answer.headers["X-Project"] == "7"
    assert gate.entered == 1


# --- sessions -------------------------------------------------------------------------------------------


async def test_a_session_that_nothing_is_said_about_is_an_error_that_says_what_to_write(
    guards: Guards,
) -> None:
    app = FastAPI()
    app.get("/session/{project}")(guards.guard().locked_cache()(by_session))
    async with client_of(app) as client:
        with pytest.raises(KeyPartError, match=r'\'db\'.*unkeyed=\("db",\)') as caught:
            await client.get("/session/4")
    assert caught.value.parameter == "db"
    assert calls == []


class AsyncSession(Session):
    """Known by its name and its package, neither of which has to be installed for this."""

    __module__ = "sqlalchemy.ext.asyncio.session"


async def by_known_session(project: int, db: Annotated[AsyncSession, Depends(session)]) -> int:
    return project


def test_a_session_of_a_known_kind_is_refused_at_decoration() -> None:
    with pytest.raises(KeyPartError, match=r'sqlalchemy AsyncSession .*resources=\{"db": factory\}'):
        locked_cache(ttl=300)(by_known_session)


async def test_a_yielded_session_is_used_within_its_request_also_when_the_value_is_stale(
    guards: Guards,
) -> None:
    guard = guards.guard(ttl=60, stale_ttl=600)
    app = FastAPI()
    cached = guard.locked_cache(unkeyed=("db",))(by_session)
    app.get("/session/{project}")(cached)
    async with client_of(app) as client:
        assert (await client.get("/session/4")).json() == 40
        await guards.age(cached.key(4, db=None), 61)
        # A refresh in the background would find the session closed; this request computes it itself.
        assert (await client.get("/session/4")).json() == 40
        assert calls == ["by_session"] * 2
        assert not guard.engine.runtime().flights


async def test_when_the_client_of_the_leading_request_leaves_the_next_request_computes_with_its_own_session(
    guards: Guards,
) -> None:
    guard, gate, app = guards.guard(), Gate(), FastAPI()
    used = []

    async def count(project: int, db: SessionDep) -> int:
        used.append(db)
        await gate.hold()
        return db.count(project)

    cached = guard.locked_cache(unkeyed=("db",))(count)
    app.get("/count/{project}")(cached)
    async with client_of(app) as client:
        leader = asyncio.create_task(client.get("/count/4"))
        await gate.arrival()
        passenger = asyncio.create_task(client.get("/count/4"))
        await joined(guard, cached.key(4, db=None), 2)
        leader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leader
        assert used[0].open is False
        await gate.arrival()
        gate.open()
        assert (await soon(passenger)).json() == 40
    assert len(used) == 2


async def test_with_resources_the_request_gives_no_session_and_the_schema_asks_for_none(
    guards: Guards,
) -> None:
    guard, app = guards.guard(), FastAPI()
    opener = contextlib.asynccontextmanager(session)
    app.get("/session/{project}")(guard.locked_cache(resources={"db": opener})(by_session))
    async with client_of(app) as client:
        assert [(await client.get("/session/4")).json() for _ in range(3)] == [40] * 3
    assert Session.opened == 1
    (parameter,) = app.openapi()["paths"]["/session/{project}"]["get"]["parameters"]
    assert parameter["name"] == "project"


async def test_a_cached_function_can_be_a_dependency(guards: Guards) -> None:
    guard, app = guards.guard(), FastAPI()

    async def settings(region: str = "eu") -> Filter:
        calls.append(region)
        return Filter(least=5, tags=[region])

    cached = guard.locked_cache()(settings)

    @app.get("/settings")
    async def show(chosen: Filter = Depends(cached)) -> Filter:
        return chosen

    async with client_of(app) as client:
        for region in ("eu", "us", "eu"):
            answer = await client.get(f"/settings?region={region}")
            assert answer.json() == {"least": 5, "tags": [region]}
    assert calls == ["eu", "us"]


# --- what cannot be cached is an error, never a silent half ---------------------------------------------


@pytest.mark.parametrize(
    "kind", [fastapi.Response, fastapi.responses.StreamingResponse, fastapi.BackgroundTasks]
)
def test_a_return_annotation_of_a_response_is_refused(kind: type) -> None:
    async def endpoint() -> Any:
        raise NotImplementedError

    endpoint.__annotations__["return"] = kind
    with pytest.raises(UnsupportedValue, match="return the data itself"):
        locked_cache(ttl=300)(endpoint)


async def test_a_response_that_no_annotation_announced_is_served_whole_to_each_and_an_error_if_strict(
    guards: Guards,
) -> None:
    app, guard, made = FastAPI(), guards.guard(), []

    @app.get("/")
    @guard.locked_cache()
    async def endpoint():  # type: ignore[no-untyped-def]
        made.append(fastapi.responses.JSONResponse({"a": 1}))
        return made[-1]

    async with client_of(app) as client:
        replies = await soon(asyncio.gather(*[client.get("/") for _ in range(3)]))
    assert [reply.json() for reply in replies] == [{"a": 1}] * 3 and len(made) == 3
    with pytest.raises(UnsupportedValue, match="JSONResponse, which cannot be stored"):
        await guards.guard(strict=True).locked_cache(name="strict")(endpoint.__wrapped__)()


@pytest.mark.parametrize("options", [{}, {"unkeyed": ("told",)}, {"key": lambda told: ""}])
@pytest.mark.parametrize("kind", [fastapi.Response, fastapi.BackgroundTasks])
def test_a_parameter_that_belongs_to_one_callers_answer_is_refused_also_when_it_is_unkeyed(
    kind: type, options: dict[str, Any]
) -> None:
    async def endpoint(told: Any) -> int:
        return 1

    endpoint.__annotations__["told"] = kind
    with pytest.raises(Misuse, match=r"'told' of .*endpoint\(\) is a .* one caller"):
        locked_cache(**options)(endpoint)


def test_a_request_parameter_is_refused_with_advice_and_works_with_a_key() -> None:
    async def endpoint(request: fastapi.Request) -> str:
        return request.url.path

    with pytest.raises(KeyPartError, match=r"key=lambda request: request\.headers"):
        locked_cache(ttl=300)(endpoint)


async def test_with_a_key_an_endpoint_may_take_the_request(guards: Guards) -> None:
    guard, app = guards.guard(), FastAPI()

    async def endpoint(request: fastapi.Request, page: int = 1) -> str:
        calls.append(request.headers["x-user"])
        return f"{request.url.path} {page}"

    cached = guard.locked_cache(key=lambda request, page=1: (request.url.path, page))(endpoint)
    app.get("/pages")(cached)
    async with client_of(app) as client:
        for user, page in (("ann", 1), ("bob", 1), ("bob", 2)):
            answer = await client.get(f"/pages?page={page}", headers={"X-User": user})
            assert answer.json() == f"/pages {page}"
    assert calls == ["ann", "bob"]


async def test_a_plain_endpoint_is_cached_like_an_async_one(guards: Guards) -> None:
    app, guard = FastAPI(), guards.guard()
    calls: list[int] = []

    @app.get("/plain")
    @guard.locked_cache(ttl=300)
    def endpoint(project: int) -> dict[str, int]:
        calls.append(project)
        return {"project": project}

    async with client_of(app) as client:
        answers = await asyncio.gather(*(client.get("/plain?project=7") for _ in range(5)))
        assert [answer.json() for answer in answers] == [{"project": 7}] * 5
        assert (await client.get("/plain?project=seven")).status_code == 422
    assert calls == [7]
    guard.close()


# --- install --------------------------------------------------------------------------------------------


async def test_who_waits_too_long_gets_a_503_that_says_when_to_come_back(guards: Guards) -> None:
    gate, app = Gate(), FastAPI()
    guard = guards.guard(wait_timeout=0.5, fallback_limit=0)
    guard.install(app)

    @app.get("/slow")
    @guard.locked_cache()
    async def slow() -> int:
        await gate.hold()
        return 1

    async with client_of(app) as client:
        leader = asyncio.create_task(client.get("/slow"))
        await gate.arrival()
        answer = await soon(client.get("/slow"))
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) >= 1
        assert answer.json() == {"detail": "The value is being computed. Try again."}
        gate.open()
        assert (await soon(leader)).status_code == 200


async def test_an_overload_is_a_503_too(guards: Guards) -> None:
    gate, app = Gate(), FastAPI()
    guard = guards.guard(max_passengers=1)
    guard.install(app)

    @app.get("/slow")
    @guard.locked_cache()
    async def slow() -> int:
        await gate.hold()
        return 1

    async with client_of(app) as client:
        leader = asyncio.create_task(client.get("/slow"))
        await gate.arrival()
        answer = await soon(client.get("/slow"))
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        gate.open()
        await soon(leader)


async def test_the_guard_closes_with_the_app_and_before_the_apps_own_end(guards: Guards) -> None:
    gate, guard = Gate(), guards.guard()
    order: list[str] = []

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, str]]:
        order.append("database open")
        yield {"database": "open"}
        order.append("database closed")

    app = FastAPI(lifespan=lifespan)
    guard.install(app)

    @app.get("/slow")
    @guard.locked_cache()
    async def slow() -> int:
        await gate.hold()
        order.append("computed")
        return 1

    async def serve() -> None:
        async with app.router.lifespan_context(app) as state:
            assert state == {"database": "open"}
            async with client_of(app) as client:
                request = asyncio.create_task(client.get("/slow"))
                await gate.arrival()
                request.cancel()

    serving = asyncio.create_task(serve())
    await until(lambda: last_used_of(guard) is None and gate.entered)
    gate.open()
    await soon(serving)
    assert order == ["database open", "computed", "database closed"]


@pytest.mark.parametrize("app", [None, object(), fastapi.APIRouter()])
def test_install_takes_an_application(app: Any) -> None:
    with pytest.raises(Misuse, match="takes a FastAPI or Starlette application"):
        StampedeGuard.from_url("memory://").install(app)
