"""What `before_request` functions prepare for a view, and what the end of a computation's context does."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask, Request, g, render_template_string, request

from stampede_guard.integrations.flask import Stampede

READS: dict[str, Callable[[], Any]] = {
    "getattr": lambda: getattr(request, "locale", "en"),
    "attribute": lambda: request.locale,  # type: ignore[attr-defined]
    "hasattr": lambda: request.locale if hasattr(request, "locale") else "en",
    "its dict": lambda: request.__dict__.get("locale", "en"),
    "all of its dict": lambda: dict(vars(request)).get("locale", "en"),
    "class": lambda: request.chosen,  # type: ignore[attr-defined]
    "template": lambda: render_template_string("{{ request.locale|default('en') }}"),
    "attribute of g": lambda: g.locale,
    "setdefault": lambda: g.setdefault("locale", "en"),
    "vars of g": lambda: vars(g).get("locale", "en"),
    "setdefault in vars of g": lambda: vars(g).setdefault("locale", "en"),
    "dict of g": lambda: g.__dict__["locale"],
    "list of g": lambda: g.locale if "locale" in list(g) else "en",
    "copy of g": lambda: {**vars(g)}.get("locale", "en"),
    "merged": lambda: (vars(g) | {}).get("locale", "en"),
}


class WithDefault(Request):
    chosen = "en"


@pytest.mark.parametrize("read", READS)
def test_a_caller_gets_what_its_before_request_functions_have_prepared(
    read: str, stampede: Stampede, app: Flask
) -> None:
    app.request_class = WithDefault

    @app.before_request
    def choose() -> None:
        if locale := request.headers.get("X-Locale"):
            prepared: Any = request
            prepared.locale = prepared.chosen = g.locale = locale

    @app.get("/")
    @stampede.cached_view(ttl=60)
    def page() -> str:
        return f"in {READS[read]()}"

    client = app.test_client()
    for locale in ("de", "it", "de"):
        assert client.get("/", headers={"X-Locale": locale}).text == f"in {locale}"


def test_callers_without_it_share_a_response(stampede: Stampede, app: Flask) -> None:
    entered = []

    @app.get("/")
    @stampede.cached_view(ttl=60)
    def page() -> str:
        entered.append(1)
        return f"{len(list(g))} {getattr(request, 'locale', 'en')} {sorted(vars(request))[:0]}"

    assert [app.test_client().get("/").text for _ in range(2)] == ["0 en []"] * 2
    assert entered == [1]


@pytest.mark.parametrize("kind", ["teardown_request", "teardown_appcontext"])
def test_an_error_of_a_teardown_function_does_not_replace_a_computed_value(
    kind: str, stampede: Stampede, app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    closed: list[str] = []

    @app.before_request
    def connect() -> None:
        g.connection = "open"

    @getattr(app, kind)
    def disconnect(error: Any) -> None:
        closed.append(g.connection)

    @app.get("/page/<int:number>")
    @stampede.cached_view(ttl=60)
    def page(number: int) -> str:
        return f"page {number}"

    @app.get("/data/<int:number>")
    @stampede.locked_cache(ttl=60)
    def data(number: int) -> dict[str, int]:
        return {"number": number}

    client = app.test_client()
    with caplog.at_level(logging.WARNING, "stampede_guard"):
        assert [client.get(f"/page/{number}").text for number in (1, 2)] == ["page 1", "page 2"]
        assert [client.get(f"/data/{number}").json for number in (1, 2)] == [{"number": 1}, {"number": 2}]
    assert closed == ["open"] * 4, "those of the callers"
    told = [record.getMessage() for record in caplog.records if "teardown function" in record.getMessage()]
    assert len(told) == (1 if kind == "teardown_request" else 2), "once per function"
    assert all("g.pop('name', None)" in text for text in told)


def test_a_teardown_function_sees_what_the_computation_put_into_g(stampede: Stampede, app: Flask) -> None:
    closed: list[Any] = []
    app.teardown_appcontext(lambda error: closed.append(g.pop("connection", None)))

    @app.get("/")
    @stampede.cached_view(ttl=60)
    def page() -> str:
        g.connection = "open"
        return "page"

    assert app.test_client().get("/").text == "page"
    assert closed == ["open", None]


def test_an_error_of_the_computation_goes_before_one_of_its_teardown(stampede: Stampede, app: Flask) -> None:
    @app.teardown_appcontext
    def disconnect(error: Any) -> None:
        g.connection.close()

    @stampede.locked_cache(ttl=60)
    def failing() -> int:
        raise ValueError("of the computation")

    context = app.app_context()
    context.push()
    with pytest.raises(ValueError, match="of the computation"):
        failing()
    g.connection = type("Connection", (), {"close": lambda self: None})()
    context.pop()
