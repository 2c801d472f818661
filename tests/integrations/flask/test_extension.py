"""`Stampede`: applications, their settings, errors and the command."""

from __future__ import annotations

import logging
import weakref
from typing import Any

import pytest
from flask import Flask, current_app, jsonify
from werkzeug.exceptions import HTTPException, NotFound

from stampede_guard import StampedeGuard
from stampede_guard.errors import (
    ComputeFailed,
    ComputeTimeout,
    Misuse,
    PolicyError,
    StoreUnavailable,
    UrlError,
    WaitTimeout,
)
from stampede_guard.integrations.flask import Stampede
from stampede_guard.values.failures import decode_failure, encode_failure
from tests.integrations.flask.conftest import Make
from tests.support.heap import collect


def test_a_function_decorated_before_there_is_an_application_uses_the_guard_of_its_caller(
    stampede: Stampede, make: Make, namespace: str
) -> None:
    computed: list[str] = []

    @stampede.locked_cache(ttl=60)
    def name(number: int) -> str:
        computed.append(current_app.name)
        return current_app.name

    with make("first", STAMPEDE_GUARD_NAMESPACE=f"{namespace}.a").app_context():
        assert [name(1), name(1)] == ["first"] * 2
    with make("second", STAMPEDE_GUARD_NAMESPACE=f"{namespace}.b").app_context():
        assert [name(1), name(1)] == ["second"] * 2
        assert name.key(1).startswith(f"{namespace}.b:")
        assert name.invalidate(1) == "done"
        assert name(1) == "second"
        assert name.refresh(1) == "second"
    assert computed == ["first"] + ["second"] * 3


def test_a_factory_may_make_its_views_again_for_each_application(stampede: Stampede, make: Make) -> None:
    def create(answer: dict[str, int]) -> Flask:
        app = make(STAMPEDE_GUARD_URL="memory://")

        @app.get("/answer")
        @stampede.locked_cache(ttl=60)
        def answered() -> dict[str, int]:
            return answer

        @app.get("/page")
        @stampede.cached_view(ttl=60)
        def page() -> dict[str, int]:
            return answer

        return app

    for number in range(3):
        client = create({"is": number}).test_client()
        assert client.get("/answer").json == client.get("/page").json == {"is": number}


def test_methods_and_coroutines_are_decorated_too(stampede: Stampede, app: Flask) -> None:
    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        def __cache_key__(self) -> str:
            return self.name

        @stampede.locked_cache(ttl=60, name="test.Shop.sales")
        def sales(self, day: str) -> str:
            return f"{self.name} {day} {current_app.name}"

        @stampede.locked_cache(ttl=60, name="test.Shop.asales")
        async def asales(self, day: str) -> str:
            return self.sales(day)

    @app.get("/")
    async def view() -> dict[str, Any]:
        shop = Shop("corner")
        return {"sales": await shop.asales("mo"), "done": await shop.asales.invalidate("mo")}

    assert app.test_client().get("/").json == {"sales": "corner mo shop", "done": "done"}
    with app.app_context():
        assert Shop("corner").sales("mo") == "corner mo shop"
        assert Shop("corner").sales.invalidate("mo") == "done"


def test_a_mistake_is_an_error_where_the_function_is_decorated(stampede: Stampede) -> None:
    def function(number: int) -> int:
        return number

    with pytest.raises(PolicyError, match="ttl=-1"):
        stampede.locked_cache(ttl=-1)(function)
    with pytest.raises(Misuse, match="takes its options by name"):
        stampede.locked_cache(function)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="takes its options by name"):
        stampede.cached_view(function)  # type: ignore[arg-type]
    cached = stampede.locked_cache(ttl=60)(function)
    with pytest.raises(Misuse, match=r"within `with app.app_context\(\):`"):
        cached(1)
    with Flask("bare").app_context(), pytest.raises(Misuse, match=r"'bare' has no guard: call .*init_app"):
        cached(1)


@pytest.mark.parametrize(
    ("config", "error", "words"),
    [
        ({"STAMPEDE_GUARD_URI": "redis://a"}, Misuse, "do you mean STAMPEDE_GUARD_URL"),
        ({"STAMPEDE_GUARD_URL": "http://a"}, UrlError, "redis://"),
        ({"STAMPEDE_GUARD_POLICY": {"wait": 1}}, Misuse, "wait"),
        ({"STAMPEDE_GUARD_POLICY": "ttl=5"}, Misuse, "is a dictionary"),
        ({"STAMPEDE_GUARD_LIMITS": {"max_thread": 1}}, Misuse, "do you mean max_threads"),
        ({"STAMPEDE_GUARD_LIMITS": 3}, Misuse, "is a dictionary"),
        ({"STAMPEDE_GUARD_MODE": "fast"}, Misuse, "fast"),
    ],
)
def test_wrong_settings_are_errors_of_init_app(
    config: dict[str, Any], error: type[Exception], words: str
) -> None:
    app = Flask("shop")
    app.config.update(config)
    with pytest.raises(error, match=words):
        Stampede(app)


def test_settings_come_from_the_application_then_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("STAMPEDE_GUARD_URL", "STAMPEDE_GUARD_NAMESPACE", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)

    def guard_of(**config: Any) -> StampedeGuard:
        app = Flask("my shop/api")
        app.config.update(config)
        Stampede(app)
        found: StampedeGuard = app.extensions["stampede_guard"].guard
        return found

    with caplog.at_level(logging.WARNING):
        assert guard_of().namespace == "my-shop-api"
    assert "other workers are not covered" in caplog.text
    caplog.clear()
    assert guard_of(TESTING=True).policy.wait_timeout == 20
    given = guard_of(STAMPEDE_GUARD_URL="memory://", STAMPEDE_GUARD_POLICY={"ttl": "5m"})
    assert (given.policy.ttl, given.policy.wait_timeout) == (300, 20)
    monkeypatch.setenv("STAMPEDE_GUARD_NAMESPACE", "of-env")
    monkeypatch.setenv("STAMPEDE_GUARD_URL", "memory://")
    assert guard_of().namespace == "of-env"
    assert guard_of(STAMPEDE_GUARD_NAMESPACE="own").namespace == "own"
    assert guard_of(STAMPEDE_GUARD_MODE="off").mode == "off"
    assert not caplog.text


def test_an_application_has_one_guard_and_takes_ours(make: Make) -> None:
    with pytest.raises(Misuse, match="has a guard already"):
        Stampede(make())
    with pytest.raises(Misuse, match="takes a Flask application, not StampedeGuard"):
        Stampede(StampedeGuard.from_url("memory://"))  # type: ignore[arg-type]
    with pytest.raises(Misuse, match="is a StampedeGuard, not str"):
        Stampede(guard="memory://")  # type: ignore[arg-type]
    guard = StampedeGuard.from_url("memory://")
    app = Flask("other")
    with pytest.raises(Misuse, match=r"for flask, write .*flask\.Stampede\(app, guard=guard\)"):
        guard.install(app)
    stampede = Stampede(app, guard=guard)
    with app.app_context():
        assert stampede.guard is guard


def test_an_application_without_connections_is_collected() -> None:
    def use() -> weakref.ref[Flask]:
        stampede, app = Stampede(), Flask("shop")
        app.config["STAMPEDE_GUARD_URL"] = "memory://"
        stampede.init_app(app)

        @stampede.locked_cache(ttl=60)
        def one() -> int:
            return 1

        with app.app_context():
            assert one.key().startswith("shop:")
        return weakref.ref(app)

    app = use()
    collect()
    assert app() is None


ERRORS = {
    "wait": (WaitTimeout("too long", retry_after=2.5), 503, "3"),
    "store": (StoreUnavailable("user 7 of redis://secret"), 503, "5"),
    "compute": (ComputeTimeout("too slow"), 504, None),
    "elsewhere": (ComputeFailed("Gone", "no", status_code=410), 410, None),
    "unknown": (ComputeFailed("KeyError", "no"), 500, None),
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors_of_the_guard_are_answers(what: str, app: Flask) -> None:
    error, status, retry_after = ERRORS[what]

    @app.get("/")
    def view() -> str:
        raise error

    answer = app.test_client().get("/")
    assert (answer.status_code, answer.headers.get("Retry-After")) == (status, retry_after)
    assert "secret" not in answer.text


def test_handlers_of_the_application_decide() -> None:
    app = Flask("shop")

    @app.errorhandler(ComputeTimeout)
    def mine(error: ComputeTimeout) -> tuple[str, int]:
        return "mine", 418

    Stampede(app, guard=StampedeGuard.from_url("memory://"))

    @app.errorhandler(HTTPException)
    def as_json(error: HTTPException) -> Any:
        return jsonify(code=error.code), error.code

    @app.get("/<what>")
    def view(what: str) -> str:
        raise ERRORS[what][0]

    client = app.test_client()
    assert client.get("/compute").text == "mine"
    assert client.get("/wait").json == {"code": 503}
    assert client.get("/elsewhere").json == {"code": 410}


def test_domain_errors_keep_their_meaning(stampede: Stampede, app: Flask) -> None:
    class ProductNotFound(Exception):
        def __init__(self, number: int) -> None:
            super().__init__(number)
            self.number = number

    @app.errorhandler(ProductNotFound)
    def missing(error: ProductNotFound) -> tuple[dict[str, int], int]:
        return {"missing": error.number}, 404

    @stampede.locked_cache(ttl=60, error_ttl=60)
    def product(number: int) -> str:
        raise ProductNotFound(number)

    app.get("/<int:number>")(lambda number: product(number))
    for _ in range(3):
        answer = app.test_client().get("/7")
        assert (answer.json, answer.status_code) == ({"missing": 7}, 404)
    for error in (ProductNotFound(7), NotFound("no such thing")):
        stored = encode_failure(error, id="of another process")
        assert stored is not None
        rebuilt = decode_failure(stored)
        assert (type(rebuilt), vars(rebuilt)) == (type(error), vars(error))


def test_the_command_knows_the_store_of_the_application(
    make: Make, stampede: Stampede, namespace: str, capfd: pytest.CaptureFixture[str]
) -> None:
    app = make()

    @stampede.locked_cache(ttl=60, name="shop.answer")
    def answer() -> int:
        return 42

    with app.app_context():
        assert answer() == 42
    result = app.test_cli_runner().invoke(args=["stampede", "keys", "--json"])
    assert result.exit_code == 0
    assert "shop.answer" in capfd.readouterr().out
    assert app.test_cli_runner().invoke(args=["stampede", "no-such-command"]).exit_code != 0
