"""A row of a database as a parameter, such as the user that a dependency loads: what to write is said at decoration."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Header
from sqlalchemy import StaticPool, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, Session, mapped_column

from stampede_guard import StampedeGuard
from stampede_guard.errors import KeyPartError, UnsupportedValue
from stampede_guard.stores.memory import MemoryStore
from tests.integration.fastapi.cases import client_of


class Base(DeclarativeBase):
    pass


class User(Base):
    __tablename__ = "users"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


class Seat(Base):
    __tablename__ = "seats"
    hall: Mapped[int] = mapped_column("hall_id", primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)


class Known(Base):
    __tablename__ = "known"
    id: Mapped[int] = mapped_column(primary_key=True)

    def __cache_key__(self) -> int:
        return self.id


class DataBase(MappedAsDataclass, DeclarativeBase):
    pass


class Account(DataBase):
    __tablename__ = "accounts"
    id: Mapped[int] = mapped_column(primary_key=True)


guard = StampedeGuard(MemoryStore(), namespace="rows")


async def of_user(user: User, page: int = 1) -> int: ...


async def of_maybe(user: User | None) -> int: ...


async def of_seat(seat: Annotated[Seat, Depends(lambda: None)]) -> int: ...


async def of_account(account: Account, db: Any) -> int: ...


@pytest.mark.parametrize(
    ("function", "own", "written"),
    [
        (of_user, "take user.id", "key=lambda user, page: (user.id, page)"),
        (of_maybe, "take user.id", "key=lambda user: user.id"),
        (of_seat, "take (seat.hall, seat.number)", "key=lambda seat: (seat.hall, seat.number)"),
        (of_account, "take account.id", "key=lambda account: account.id"),
    ],
)
def test_a_row_is_refused_at_decoration_and_its_identity_is_proposed(
    function: Any, own: str, written: str
) -> None:
    with pytest.raises(KeyPartError, match="is a row of a database") as caught:
        guard.locked_cache(ttl=60, resources={"db": lambda: None} if function is of_account else {})(function)
    assert own in str(caught.value) and f"{written}, with whatever else" in str(caught.value)


async def test_a_row_where_none_is_declared_gets_the_same_advice() -> None:
    @guard.locked_cache(ttl=60, resources={"db": lambda: None})
    async def undeclared(user: Any, page: int, db: Any) -> int: ...

    with pytest.raises(KeyPartError, match=r"row of a database.*key=lambda user, page: \(user\.id, page\)"):
        await undeclared(User(id=7), 1)


async def test_a_row_that_says_its_key_is_one() -> None:
    @guard.locked_cache(ttl=60)
    async def known(row: Known) -> int:
        return row.id

    assert (await known(Known(id=7)), await known(Known(id=8))) == (7, 8)
    assert known.key(Known(id=7)) == known.key(Known(id=7)) != known.key(Known(id=8))


engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})


async def get_db() -> AsyncIterator[Session]:
    with Session(engine) as session:
        yield session


async def current_user(x_user: Annotated[int, Header()], db: Annotated[Session, Depends(get_db)]) -> User:
    user = db.get(User, x_user)
    assert user is not None
    return user


CurrentUser = Annotated[User, Depends(current_user)]


async def current_user_id(user: CurrentUser) -> int:
    return user.id


async def test_both_cures_serve_each_user_what_is_theirs() -> None:
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([User(id=1, name="ann"), User(id=2, name="bob")])
        session.commit()
    app, computed = FastAPI(), list[str]()
    guard.install(app)

    @app.get("/by-id")
    @guard.locked_cache(ttl=60, resources={"db": get_db})
    async def by_id(user_id: Annotated[int, Depends(current_user_id)], db: Session) -> str:
        computed.append(f"id {user_id}")
        user = db.get(User, user_id)
        assert user is not None
        return user.name

    @app.get("/by-key")
    @guard.locked_cache(ttl=60, key=lambda user, page: (user.id, page))
    async def by_key(user: CurrentUser, page: int = 1) -> str:
        computed.append(f"key {user.id}")
        return user.name

    async with client_of(app) as client:
        for path in ("/by-id", "/by-key"):
            for number, name in ((1, "ann"), (2, "bob"), (1, "ann")):
                assert (await client.get(path, headers={"x-user": str(number)})).json() == name
    assert computed == ["id 1", "id 2", "key 1", "key 2"]
    await by_id.invalidate(1)
    with Session(engine) as session:
        ann = session.get(User, 1)
        assert ann is not None
        await by_key.invalidate(ann)
        assert await by_id.peek(2) == "bob"


def test_a_computation_that_gets_a_row_stays_within_the_request_of_its_session() -> None:
    @guard.locked_cache(ttl=60, key="{page}", name="bound")
    async def bound(user: User, page: int) -> int: ...

    @guard.locked_cache(ttl=60, name="free")
    async def free(user_id: int) -> int: ...

    assert bound.set_mode.__self__._plan.request_bound
    assert not free.set_mode.__self__._plan.request_bound


async def test_a_declared_row_without_a_response_model_is_served_and_the_log_says_what_to_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    computed: list[int] = []

    @guard.locked_cache(ttl=60, name="row_of")
    async def row_of(id: int) -> User:
        computed.append(id)
        return User(id=id, name="ann")

    for _ in range(2):
        assert (await row_of(7)).name == "ann"
    assert computed == [7, 7]
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert "row_of: its results are served, but not cached: the return annotation holds" in told
    assert (
        "use a pydantic model" in told
        and "give its route a response_model=, and call guard.install(app)" in told
    )

    @guard.locked_cache(ttl=60, name="strictly", strict=True)
    async def strictly(id: int) -> User:
        return User(id=id, name="ann")

    with pytest.raises(UnsupportedValue, match="the return annotation holds"):
        await strictly(7)


def test_without_fastapi_there_is_no_response_model_and_a_declared_row_is_an_error_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def row_of(id: int) -> User: ...

    monkeypatch.delitem(sys.modules, "fastapi")
    with pytest.raises(UnsupportedValue, match="the return annotation holds"):
        guard.locked_cache(ttl=60, name="without")(row_of)
