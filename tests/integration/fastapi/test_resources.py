"""`resources=` takes what `Depends` takes, and closes it when the computation has ended."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Header, Query, Request, Security
from fastapi.security import APIKeyHeader
from sqlalchemy import create_engine, select
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

from stampede_guard.errors import ComputeTimeout, Misuse
from tests.integration.fastapi.cases import client_of
from tests.integration.fastapi.models import SECRET, Base, PostRow, UserOut, UserRow, WithPosts
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards

seen: list[str] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> Iterator[None]:
    seen.clear()
    yield


class Db:
    """What every factory below gives, in its own way."""

    def __init__(self) -> None:
        seen.append("open")

    def close(self) -> None:
        seen.append("closed")


def get_sync() -> Db:
    return Db()


async def get_async() -> Db:
    return Db()


def yield_sync() -> Iterator[Db]:
    db = Db()
    try:
        yield db
    except Exception as error:
        seen.append(type(error).__name__)
        raise
    finally:
        db.close()


async def yield_async() -> AsyncIterator[Db]:
    db = Db()
    try:
        yield db
    except Exception as error:
        seen.append(type(error).__name__)
        raise
    finally:
        db.close()


class Caller:
    def __call__(self) -> Db:
        return Db()


class YieldingCaller:
    async def __call__(self) -> AsyncIterator[Db]:
        db = Db()
        yield db
        db.close()


class Repo(Db):
    def __init__(self, db: Annotated[Db, Depends(yield_sync)], size: int = 3) -> None:
        self.db, self.size = db, size


def nested(repo: Repo = Depends(), db: Db = Depends(yield_sync)) -> Db:
    assert repo.db is db, "a factory that two others need is called once"
    return db


async def unshared(
    one: Annotated[Db, Depends(yield_async)], other: Annotated[Db, Depends(yield_async, use_cache=False)]
) -> Db:
    assert one is not other
    return one


def deep(db: "Db" = Depends(nested)) -> Db:  # noqa: UP037  # as people write it
    return db


FORMS: dict[str, tuple[Any, list[str]]] = {
    "function": (get_sync, ["open"]),
    "async function": (get_async, ["open"]),
    "yield": (yield_sync, ["open", "closed"]),
    "async yield": (yield_async, ["open", "closed"]),
    "class": (Db, ["open"]),
    "callable object": (Caller(), ["open"]),
    "callable object that yields": (YieldingCaller(), ["open", "closed"]),
    "partial": (functools.partial(yield_sync), ["open", "closed"]),
    "depends": (Depends(yield_async), ["open", "closed"]),
    "class with dependencies": (Repo, ["open", "closed"]),
    "nested": (nested, ["open", "closed"]),
    "deeply nested": (deep, ["open", "closed"]),
    "not shared": (unshared, ["open", "open", "closed", "closed"]),
    "context manager": (contextlib.contextmanager(yield_sync), ["open", "closed"]),
    "async context manager": (contextlib.asynccontextmanager(yield_async), ["open", "closed"]),
}


@pytest.mark.parametrize("kind", ["async def", "def"])
@pytest.mark.parametrize("form", FORMS)
async def test_whatever_depends_takes_is_opened_for_the_computation_and_closed_after_it(
    guards: Guards, form: str, kind: str
) -> None:
    factory, expected = FORMS[form]
    guard, app = guards.guard(), FastAPI()

    # Between two parameters that callers give by position.
    async def counted(first: int, db: Db, last: int = 2) -> list[int]:
        seen.append(type(db).__name__)
        return [first, last]

    def plain(first: int, db: Db, last: int = 2) -> list[int]:
        seen.append(type(db).__name__)
        return [first, last]

    cached: Any = guard.locked_cache(resources={"db": factory})(counted if kind == "async def" else plain)
    app.get("/{first}")(cached)
    async with client_of(app) as client:
        for _ in range(2):
            assert (await soon(client.get("/1?last=5"))).json() == [1, 5]
    value = cached(1, 5)
    assert (value if kind == "def" else await value) == [1, 5], "the same entry, by position"
    used = seen.index("Repo" if factory is Repo else "Db")
    opens = expected.count("open")
    assert [*seen[:used], *seen[used + 1 :]] == expected and used == opens
    if kind == "def":
        guard.close()


async def test_an_invalidation_by_position_means_the_parameters_that_callers_give(guards: Guards) -> None:
    @guards.guard().locked_cache(resources={"db": get_sync})
    async def counted(first: int, db: Db, last: int) -> int:
        return first + last

    cached: Any = counted
    assert await cached(1, 5) == 6
    await cached.invalidate("1", "5")
    assert await cached(1, 5) == await cached.refresh("1", "5") == 6
    assert seen == ["open"] * 3


@pytest.mark.parametrize("factory", [yield_sync, yield_async], ids=["yield", "async yield"])
async def test_an_error_of_the_computation_goes_through_the_factory_and_closes_it(
    guards: Guards, factory: Any
) -> None:
    @guards.guard().locked_cache(resources={"db": factory})
    async def counted(db: Db) -> int:
        raise LookupError("no such project")

    with pytest.raises(LookupError):
        await counted()  # type: ignore[call-arg]
    assert seen == ["open", "LookupError", "closed"]


@pytest.mark.parametrize("kind", ["async def", "def"])
async def test_a_factory_cannot_turn_an_error_into_a_value(guards: Guards, kind: str) -> None:
    def lenient() -> Iterator[int]:
        with contextlib.suppress(LookupError):
            yield 1

    async def counted(db: int) -> int:
        raise LookupError("no such project")

    def plain(db: int) -> int:
        raise LookupError("no such project")

    guard = guards.guard()
    cached: Any = guard.locked_cache(resources={"db": lenient})(counted if kind == "async def" else plain)
    with pytest.raises(LookupError):
        await cached() if kind == "async def" else cached()
    guard.close()


@pytest.mark.parametrize("factory", [yield_sync, yield_async], ids=["yield", "async yield"])
async def test_a_computation_that_is_cancelled_closes_what_it_opened(guards: Guards, factory: Any) -> None:
    gate = Gate()

    @guards.guard(compute_timeout=0.2).locked_cache(resources={"db": factory})
    async def counted(db: Db) -> int:
        await gate.hold()
        return 1

    with pytest.raises(ComputeTimeout):
        await counted()  # type: ignore[call-arg]
    assert gate.cancelled == 1
    await until(lambda: seen == ["open", "closed"])


async def test_a_factory_that_is_cancelled_while_it_opens_in_a_thread_is_closed_when_it_has(
    guards: Guards,
) -> None:
    entered, go = threading.Event(), threading.Event()

    kept = []

    def slow() -> Iterator[Db]:
        entered.set()
        go.wait()
        yield from yield_sync()

    def factory() -> Iterator[Db]:
        # The garbage collector does not close it.
        kept.append(slow())
        return kept[-1]

    @guards.guard(compute_timeout=0.2).locked_cache(resources={"db": factory})
    async def counted(db: Db) -> int:
        raise NotImplementedError

    call = asyncio.create_task(counted())  # type: ignore[call-arg]
    await asyncio.to_thread(entered.wait)
    with pytest.raises(ComputeTimeout):
        await soon(call)
    go.set()
    await until(lambda: seen == ["open", "closed"])


async def test_a_plain_generator_runs_in_a_thread_because_it_may_block(guards: Guards) -> None:
    threads = []

    def blocking() -> Iterator[int]:
        threads.append(threading.get_ident())
        yield 1
        threads.append(threading.get_ident())

    @guards.guard().locked_cache(resources={"db": blocking})
    async def counted(db: int) -> int:
        return db

    assert await counted() == 1  # type: ignore[call-arg]
    assert len(threads) == 2 and threading.get_ident() not in threads


# --- overrides ------------------------------------------------------------------------------------------


async def test_dependency_overrides_of_an_installed_application_count(guards: Guards) -> None:
    guard, app = guards.guard(), FastAPI()
    guard.install(app)

    @app.get("/{project}")
    @guard.locked_cache(resources={"db": yield_sync, "repo": Repo})
    async def counted(project: int, db: Any, repo: Any) -> list[str]:
        return [str(db), str(repo.db)]

    def fake(size: Annotated[int, Depends(lambda: 7)]) -> Iterator[str]:
        yield f"fake {size}"
        seen.append("closed")

    async with client_of(app) as client:
        app.dependency_overrides[yield_sync] = fake
        assert (await client.get("/1")).json() == ["fake 7", "fake 7"]
        assert seen == ["closed"], "of the two that need it, each gets the same"
        app.dependency_overrides.clear()
        assert "Db" in (await client.get("/2")).json()[0]


async def test_the_overrides_of_the_application_with_the_route_count_and_not_those_of_another(
    guards: Guards,
) -> None:
    guard = guards.guard()

    @guard.locked_cache(resources={"db": get_sync})
    async def counted(project: int, db: Any) -> str:
        return str(db)

    @guard.locked_cache(resources={"db": get_sync})
    async def helper(project: int, db: Any) -> str:
        return str(db)

    def app(told: str | None) -> FastAPI:
        made = FastAPI()
        guard.install(made)
        made.get("/{project}")(counted)
        if told is not None:
            made.dependency_overrides[get_sync] = lambda: told
        return made

    # As tests do that make an application each, and do not wait for the garbage collector.
    apps = [app("older"), app("newer")]
    assert [await counted(1), await helper(1)] == ["newer", "newer"]  # type: ignore[call-arg]
    apps.append(app(None))
    assert "Db" in await counted(2)  # type: ignore[call-arg]
    assert await helper(2) == "newer"  # type: ignore[call-arg]
    assert len(apps) == 3


async def test_an_override_that_needs_a_request_is_an_error_that_names_it(guards: Guards) -> None:
    guard, app = guards.guard(), FastAPI()
    guard.install(app)

    def of_request(request: Request) -> int:
        raise NotImplementedError

    app.dependency_overrides[get_sync] = of_request

    @guard.locked_cache(resources={"db": get_sync})
    async def counted(db: Any) -> int:
        raise NotImplementedError

    with pytest.raises(Misuse, match=r"'db' cannot be made: .*of_request\(\) takes 'request' from a request"):
        await counted()  # type: ignore[call-arg]


# --- what no computation has ----------------------------------------------------------------------------


def of_request(request: Request) -> Db:
    raise NotImplementedError


def of_header(tenant: Annotated[str, Header()] = "public") -> Db:
    raise NotImplementedError


def of_query(tenant: str = Query("public")) -> Db:
    raise NotImplementedError


def of_key(key: str = Security(APIKeyHeader(name="X-Key"))) -> Db:
    raise NotImplementedError


def of_nothing(project: int) -> Db:
    raise NotImplementedError


def inner(db: Db = Depends(of_header)) -> Db:
    raise NotImplementedError


@pytest.mark.parametrize(
    ("factory", "told"),
    [
        (of_request, "of_request.. takes 'request' from a request"),
        (of_header, "of_header.. takes 'tenant' from a request"),
        (of_query, "of_query.. takes 'tenant' from a request"),
        (of_key, "APIKeyHeader.. takes 'request' from a request"),
        (of_nothing, "nothing gives 'project' to of_nothing"),
        (inner, "of_header.. takes 'tenant' from a request"),
    ],
)
def test_a_factory_that_needs_a_request_is_refused_at_decoration(
    guards: Guards, factory: Callable[..., Any], told: str
) -> None:
    async def counted(db: Db) -> int:
        raise NotImplementedError

    with pytest.raises(Misuse, match=rf"resources={{'db'.*{told}.*so that the key holds it"):
        guards.guard().locked_cache(resources={"db": factory})(counted)


# --- rows of a session that is closed with the computation ----------------------------------------------


@pytest.mark.parametrize("kind", ["async def", "def"])
async def test_a_row_is_read_while_its_session_is_open(guards: Guards, kind: str) -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add(UserRow(id=7, name="ann", posts=[PostRow(id=1, title="first")]))

    def get_db() -> Iterator[Session]:
        with Session(engine) as session:
            yield session

    def load(db: Session) -> Any:
        # The relation is loaded when it is read.
        return db.scalars(select(UserRow)).one()

    async def load_async(db: Session) -> Any:
        return load(db)

    guard, app = guards.guard(), FastAPI()
    guard.install(app)
    for path, annotation, route in (
        ("/declared", WithPosts, {}),
        ("/list", list[UserOut], {}),
        ("/route", None, {"response_model": WithPosts}),
    ):
        function: Any = functools.partial(load if kind == "def" else load_async)
        one = _named(path, function, annotation, many=path == "/list", plain=kind == "def")
        app.get(path, **route)(guard.locked_cache(name=path, resources={"db": get_db})(one))
    whole = {"id": 7, "name": "ann", "posts": [{"title": "first"}]}
    async with client_of(app) as client:
        for path in ("/declared", "/list", "/route"):
            for _ in range(2):
                answer = await client.get(path)
                assert SECRET not in answer.text
                expected = [{"id": 7, "name": "ann"}] if path == "/list" else whole
                assert answer.json() == expected
    guard.close()


def _named(path: str, function: Any, annotation: Any, *, many: bool, plain: bool) -> Any:
    async def endpoint(db):  # type: ignore[no-untyped-def]
        row = await function(db)
        return [row] if many else row

    def plain_endpoint(db):  # type: ignore[no-untyped-def]
        row = function(db)
        return [row] if many else row

    made: Any = plain_endpoint if plain else endpoint
    if annotation is not None:
        made.__annotations__["return"] = annotation
    made.__annotations__["db"] = Session
    return made
