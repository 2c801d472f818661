"""`guard.install(app)` reports the routes whose cache cannot work, once each, and says what to write instead."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Cookie, Depends, FastAPI, Header, Security
from fastapi.security import HTTPBearer, OAuth2PasswordBearer

from stampede_guard import Policy, StampedeGuard
from stampede_guard.errors import Misuse
from stampede_guard.stores.memory import MemoryStore
from tests.integration.fastapi.cases import client_of
from tests.support.heap import collect

guard = StampedeGuard(MemoryStore(), namespace="reports")
router = APIRouter()


@guard.locked_cache(ttl=60)
@router.get("/above")
async def above() -> int:
    return 1


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    return lambda: [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


Warnings = Callable[[], list[str]]


@pytest.mark.parametrize("order", ["install first", "routes first", "included", "mounted", "lifespan"])
async def test_a_cache_above_the_route_is_reported_wherever_the_route_comes_from(
    warnings: Warnings, order: str
) -> None:
    app, outer = FastAPI(), FastAPI()
    if order != "routes first":
        guard.install(outer if order == "mounted" else app)
    if order == "mounted":
        app.get("/above")(above.__wrapped__)
        outer.mount("/inner", app)
    elif order in ("included", "lifespan"):
        app.include_router(router, prefix="/v1")
    else:
        app.get("/above")(above.__wrapped__)
    if order == "routes first":
        guard.install(app)
        assert len(warnings()) == 1
    if order == "lifespan":
        async with app.router.lifespan_context(app):
            assert len(warnings()) == 1
    async with client_of(outer if order == "mounted" else app) as client:
        for _ in range(2):
            await client.get("/any")
    (told,) = warnings()
    assert "above() is cached: the cache stands above the route's decorator" in told
    assert "GET /" in told and "Write the route above and the cache below" in told


async def test_the_plain_function_under_a_route_is_reported(warnings: Warnings) -> None:
    app = FastAPI()

    async def quality() -> int:
        return 1

    cached = guard.locked_cache(ttl=60)(quality)
    app.get("/wrong")(quality)
    app.post("/right")(cached)
    guard.install(app)
    (told,) = warnings()
    assert "GET /wrong computes for each request" in told and "the function itself" in told


@pytest.mark.parametrize("order", ["install first", "routes first"])
async def test_a_cache_above_a_route_in_an_application_factory_is_reported(
    warnings: Warnings, order: str
) -> None:
    """Nothing refers to the cached function when the factory has returned."""

    def create_app() -> FastAPI:
        app = FastAPI()
        if order == "install first":
            guard.install(app)

        @guard.locked_cache(ttl=60, name=f"factory, {order}")
        @app.get("/local")
        async def local() -> int:
            return 1

        return app

    app = create_app()
    collect()
    if order == "routes first":
        guard.install(app)
    async with client_of(app) as client:
        await client.get("/local")
    (told,) = warnings()
    assert "GET /local computes for each request" in told and "the cache stands above the route's" in told


class User:
    id = 7


scheme = OAuth2PasswordBearer(tokenUrl="token")


def current(token: Annotated[str, Depends(scheme)]) -> User:
    raise NotImplementedError


def named_user() -> User:
    raise NotImplementedError


def get_db() -> object:
    raise NotImplementedError


def own_rows(who: Annotated[User, Depends(current)]) -> object:
    raise NotImplementedError


def by_cookie(sid: Annotated[str, Cookie()]) -> object:
    raise NotImplementedError


async def by_scheme(page: int, who: Annotated[User, Depends(current)]) -> int:
    raise NotImplementedError


async def by_name(page: int, current_user: User = Depends(named_user)) -> int:
    raise NotImplementedError


async def by_session_of_a_user(page: int, db: object = Depends(own_rows)) -> int:
    raise NotImplementedError


async def by_bearer(page: int, found: Annotated[Any, Security(HTTPBearer())]) -> int:
    raise NotImplementedError


async def by_header(page: int, authorization: Annotated[str, Header()]) -> int:
    raise NotImplementedError


async def by_cookies(page: int, basket: object = Depends(by_cookie)) -> int:
    raise NotImplementedError


async def both(user: Annotated[User, Depends(current)], db: object = Depends(own_rows)) -> int:
    raise NotImplementedError


async def rows(page: int, session: object = Depends(get_db), user_service: object = Depends(get_db)) -> int:
    raise NotImplementedError


SHARED: list[tuple[Any, dict[str, Any], str | None]] = [
    (by_scheme, {"unkeyed": "who"}, "who"),
    (by_scheme, {"key": "page:{page}"}, "who"),
    (by_name, {"unkeyed": "current_user"}, "current_user"),
    (by_session_of_a_user, {"unkeyed": "db"}, "db"),
    (by_bearer, {"unkeyed": "found"}, "found"),
    (by_header, {"unkeyed": "authorization"}, "authorization"),
    (by_cookies, {"unkeyed": "basket"}, "basket"),
    (both, {"unkeyed": "db"}, None),
    (by_scheme, {"key": lambda page, who: (page, who.id), "unkeyed": "who"}, None),
    (rows, {"unkeyed": ("session", "user_service")}, None),
    (by_session_of_a_user, {"resources": {"db": get_db}}, None),
]


@pytest.mark.parametrize(
    ("function", "options", "told"), SHARED, ids=[f"{f.__name__}-{'-'.join(o)}" for f, o, _ in SHARED]
)
async def test_a_user_outside_of_the_key_of_a_shared_entry_is_reported(
    warnings: Warnings, function: Any, options: dict[str, Any], told: str | None
) -> None:
    app, own = FastAPI(), StampedeGuard(MemoryStore(), namespace="t")
    own.install(app)
    app.get("/rows", dependencies=[Depends(current)])(own.locked_cache(ttl=60, **options)(function))
    async with client_of(app) as client:
        await client.get("/any")
    assert len(warnings()) == (told is not None)
    if told is not None:
        assert f"between users: {told!r} depends on the user" in warnings()[0]
        assert "GET /rows" in warnings()[0] and f"Put {told!r} into the key" in warnings()[0]


async def test_a_strict_guard_raises_instead(warnings: Warnings) -> None:
    app, own = FastAPI(), StampedeGuard(MemoryStore(), namespace="t", policy=Policy(strict=True))
    app.get("/above")(above.__wrapped__)
    with pytest.raises(Misuse, match=r"GET /above .* Write the route above and the cache below"):
        own.install(app)
    assert warnings() == []


async def test_routes_that_work_are_not_reported(warnings: Warnings) -> None:
    app = FastAPI()
    guard.install(app)

    @app.get("/cached")
    @guard.locked_cache(ttl=60)
    async def cached(page: int, who: Annotated[int, Depends(lambda: 1)]) -> int:
        return page

    @app.get("/plain")
    async def plain() -> int:
        return await cached(1, who=2)

    async with client_of(app) as client:
        assert (await client.get("/cached?page=1")).json() == (await client.get("/plain")).json() == 1
    assert warnings() == []
