"""What a computation finds around it: an application context of its own, and nothing of anybody's request."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from flask import (
    Flask,
    after_this_request,
    current_app,
    g,
    has_request_context,
    render_template_string,
    request,
    session,
    stream_with_context,
    url_for,
)
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from stampede_guard import StampedeGuard
from stampede_guard.errors import Misuse, UnsupportedValue
from stampede_guard.integrations.flask import Stampede
from tests.integrations.flask.conftest import Make

PATIENCE = 60.0


class Base(DeclarativeBase):
    pass


db = SQLAlchemy(model_class=Base)


class Product(db.Model):  # type: ignore[name-defined, misc]
    id: Mapped[int] = mapped_column(primary_key=True)
    price: Mapped[int]


@pytest.fixture
def shop(make: Make, tmp_path: Path) -> Flask:
    app = make(SQLALCHEMY_DATABASE_URI=f"sqlite:///{tmp_path}/shop.sqlite3")
    db.init_app(app)
    with app.app_context():
        db.create_all()
        db.session.add(Product(id=1, price=5))
        db.session.commit()
    return app


def sessions() -> int:
    return len(db.session.registry.registry)


def test_a_computation_has_a_session_of_its_own_which_is_removed(stampede: Stampede, shop: Flask) -> None:
    used: list[tuple[Any, str]] = []
    torn_down: list[BaseException | None] = []
    shop.teardown_appcontext(torn_down.append)

    @stampede.locked_cache(ttl=60)
    def price(number: int) -> int | None:
        used.append((db.session(), threading.current_thread().name))
        return db.session.scalar(db.select(Product.price).where(Product.id == number))

    with shop.app_context():
        mine = db.session()
        mine.get_one(Product, 1).price = 7  # not committed: others must not get it
        assert price(1) == 5
        ((session_of_computation, thread),) = used
        assert session_of_computation is not mine
        assert thread == "stampede_guard computation"
        assert torn_down == [None]
        assert sessions() == 1
        assert mine.get_one(Product, 1).price == 7
        db.session.commit()
        assert price.invalidate(1) == "done"
        assert price(1) == 7
    assert sessions() == 0
    with shop.app_context():
        assert db.engine.pool.checkedout() == 0


def test_rows_of_a_session_are_refused_with_a_cure_that_works(
    stampede: Stampede, shop: Flask, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def declared() -> list[Product]:
        return []

    with monkeypatch.context() as patched:
        # Other tests import it. A shop of Flask does not.
        patched.delitem(sys.modules, "fastapi", raising=False)
        with pytest.raises(UnsupportedValue, match=r"own types$"):
            stampede.locked_cache(ttl=60)(declared)

    @stampede.locked_cache(ttl=60)
    def models():  # type: ignore[no-untyped-def]
        return db.session.scalars(db.select(Product)).all()

    @stampede.locked_cache(ttl=60)
    def rows():  # type: ignore[no-untyped-def]
        return db.session.execute(db.select(Product.id, Product.price)).all()

    @stampede.locked_cache(ttl=60)
    def cured():  # type: ignore[no-untyped-def]
        return [dict(row._mapping) for row in db.session.execute(db.select(Product.id, Product.price))]

    with shop.app_context(), caplog.at_level(logging.ERROR):
        assert [one.price for one in models()] == [5]
        assert [one.price for one in rows()] == [5]
        assert cured() == cured() == [{"id": 1, "price": 5}]
    of_models, of_rows = (record.getMessage() for record in caplog.records)
    assert "a row of a session that its callers do not have" in of_models
    assert "pickle" not in of_models
    assert "dict(row._mapping)" in of_rows


def test_a_failed_computation_leaves_no_session(stampede: Stampede, shop: Flask) -> None:
    torn_down: list[BaseException | None] = []
    shop.teardown_appcontext(torn_down.append)

    @stampede.locked_cache(ttl=60, error_ttl=0)
    def fails() -> int:
        db.session.add(Product(id=1, price=6))
        db.session.flush()
        return 0

    with shop.app_context():
        for _ in range(2):
            with pytest.raises(Exception, match="UNIQUE"):
                fails()
        assert [type(error).__name__ for error in torn_down] == ["IntegrityError"] * 2
        assert sessions() == 0
        assert db.engine.pool.checkedout() == 0


def test_each_computation_of_a_herd_has_its_own(stampede: Stampede, shop: Flask) -> None:
    """Twenty callers of ten keys, all at once: ten sessions of ten contexts, and none is left."""
    seen: list[tuple[int, int]] = []
    together = threading.Barrier(10)

    @stampede.locked_cache(ttl=60)
    def slow(number: int) -> str:
        together.wait(PATIENCE)
        g.number = number
        seen.append((number, id(db.session())))
        db.session.scalar(db.select(Product.price))
        together.wait(PATIENCE)
        assert g.number == number
        return f"{current_app.name} {number}"

    shop.get("/<int:number>")(lambda number: slow(number))
    with ThreadPoolExecutor(20) as pool:
        answers = list(
            pool.map(lambda number: shop.test_client().get(f"/{number % 10}").text, range(20)),
        )
    assert sorted(answers) == sorted(f"shop {number % 10}" for number in range(20))
    assert len(seen) == len({which for _, which in seen}) == 10
    assert sessions() == 0


def test_a_refresh_in_the_background_has_a_context_too(stampede: Stampede, shop: Flask) -> None:
    computed = threading.Semaphore(0)

    @stampede.locked_cache(ttl=0.001, stale_ttl=600)
    def price(number: int) -> int | None:
        found = db.session.scalar(db.select(Product.price).where(Product.id == number))
        assert not has_request_context()
        computed.release()
        return found

    shop.get("/")(lambda: str(price(1)))
    client = shop.test_client()
    for _ in range(2):  # the second computation begins when a caller meets the stale value
        while True:
            assert client.get("/").text == "5"
            if computed.acquire(blocking=False):
                break


def reads_request() -> str:
    return str(request.args["page"])


def reads_session() -> str:
    return str(session.get("user"))


def reads_g() -> str:
    return str(g.user)


def makes_url() -> str:
    return url_for("view")


def asks_for_the_response() -> str:
    after_this_request(lambda response: response)
    return ""


def streams() -> str:
    return "".join(stream_with_context(iter("page")))


WORDS = {
    asks_for_the_response: "uses the request or the session of one caller",
    streams: "uses the request or the session of one caller",
    reads_request: r"reads_request\(\.\.\., page=request.args\['page'\]\)",
    reads_session: "uses the request or the session of one caller",
    reads_g: r"reads g.user, which it has not set.*reads_g\(\.\.\., user=g.user\)",
    makes_url: r"Set app.config\['SERVER_NAME'\], and write url_for\(\.\.\., _external=False\)",
}


@pytest.mark.parametrize("function", WORDS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("decorator", ["stampede", "guard"])
def test_what_belongs_to_one_request_is_an_error_that_says_what_to_write(
    function: Callable[[], str], decorator: str, stampede: Stampede, app: Flask
) -> None:
    app.before_request(lambda: setattr(g, "user", "ann"))
    by: Any = stampede if decorator == "stampede" else app.extensions["stampede_guard"].guard
    cached = by.locked_cache(ttl=60)(function)
    app.testing = True
    app.get("/")(lambda: cached())
    app.get("/view", endpoint="view")(lambda: function())
    client = app.test_client()
    with pytest.raises(Misuse, match=WORDS[function]):
        client.get("/?page=3")
    assert client.get("/view?page=3").status_code == 200  # undecorated


def test_templates_of_functions_see_no_request_and_may_be_given_what_they_need(
    stampede: Stampede, app: Flask
) -> None:
    @stampede.locked_cache(ttl=60)
    def page(number: str) -> str:
        return render_template_string(
            "page {{ number }} of {{ config.STAMPEDE_GUARD_NAMESPACE[:4] }}", number=number
        )

    app.get("/")(lambda: page(request.args["page"]))
    client = app.test_client()
    assert [client.get(f"/?page={number}").text for number in (1, 2, 1)] == [
        f"page {number} of test" for number in (1, 2, 1)
    ]


def test_the_applications_own_errors_pass_unchanged(stampede: Stampede, app: Flask) -> None:
    class Odd:
        pass

    @stampede.locked_cache(ttl=60, error_ttl=0)
    def fails(how: str) -> int:
        if how == "attribute":
            return Odd().missing  # type: ignore[attr-defined, no-any-return]
        raise RuntimeError("no request was made")

    with app.app_context():
        with pytest.raises(AttributeError, match="missing"):
            fails("attribute")
        with pytest.raises(RuntimeError, match="no request was made"):
            fails("runtime")


def test_functions_of_any_guard_find_the_application_of_their_caller() -> None:
    guard = StampedeGuard.from_url("memory://")

    @guard.locked_cache(ttl=60)
    def name(number: int) -> str:
        return current_app.name

    def changing(filters: dict[str, int]) -> str:
        return f"{current_app.name} {filters}"

    cached = guard.locked_cache(ttl=60)(changing)  # its argument may change, so it is copied
    first, second = Flask("first"), Flask("second")
    Stampede(first, guard=guard)
    with first.test_request_context("/"):
        assert name(1) == name.refresh(1) == "first"
        assert cached({"page": 1}) == "first {'page': 1}"
    with second.app_context():
        assert name(2) == "second"
    with pytest.raises(RuntimeError, match="outside of application context"):
        name(3)


def test_in_mode_off_a_function_is_a_plain_function_in_its_callers_context(
    make: Make, stampede: Stampede
) -> None:
    app = make(STAMPEDE_GUARD_MODE="off")

    @stampede.locked_cache(ttl=60)
    def page() -> str:
        return request.args["page"]

    app.get("/")(lambda: page())
    assert app.test_client().get("/?page=3").text == "3"
