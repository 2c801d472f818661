"""A view that looks at something of its caller that is not in its key: its response is computed for each caller."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask, abort, g, jsonify, render_template_string, request

from stampede_guard.integrations.flask import Stampede


def refuses_old_clients() -> str:
    if request.headers.get("X-Api-Version") != "2":
        abort(400)
    return "new"


LOOKS: dict[str, tuple[Callable[[], Any], list[tuple[int, str]], str]] = {
    "address": (
        lambda: str(request.remote_addr),
        [(200, "10.0.0.1"), (200, "10.0.0.2")],
        r"request\.remote_addr",
    ),
    "route": (lambda: request.access_route[0], [(200, "10.0.0.1"), (200, "10.0.0.2")], "x-forwarded-for"),
    "of the server": (
        lambda: str(request.environ.get("shop.tenant")),
        [(200, "ann"), (200, "bob")],
        "shop.tenant",
    ),
    "needed": (lambda: str(request.environ["shop.tenant"]), [(200, "ann"), (200, "bob")], "shop.tenant"),
    "taken": (
        lambda: str(request.environ.pop("shop.tenant", "")),
        [(200, "ann"), (200, "bob")],
        "shop.tenant",
    ),
    "or else": (
        lambda: str(request.environ.setdefault("shop.tenant", "nobody")),
        [(200, "ann"), (200, "bob")],
        "shop.tenant",
    ),
    "needed field": (
        lambda: request.headers["X-Api-Version"],
        [(200, "1"), (200, "2")],
        r"vary=\('x-api-version',\)",
    ),
    "decides": (refuses_old_clients, [(400, ""), (200, "new")], r"vary=\('x-api-version',\)"),
    "all fields": (
        lambda: dict(request.headers.items()).get("X-Api-Version"),
        [(200, "1"), (200, "2")],
        "reads all header fields",
    ),
    "their number": (lambda: str(len(request.headers) > 2), [(200, "True")] * 2, "reads all header fields"),
    "as a dictionary": (
        lambda: dict(request.headers)["X-Api-Version"],
        [(200, "1"), (200, "2")],
        "reads all header fields",
    ),
    "the environment": (
        lambda: {**request.environ}["shop.tenant"],
        [(200, "ann"), (200, "bob")],
        "reads all header fields",
    ),
}


@pytest.mark.parametrize("look", LOOKS)
def test_what_is_not_in_the_key_is_seen_by_each_callers_own_computation(
    look: str, stampede: Stampede, app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    view, expected, words = LOOKS[look]

    @app.get("/")
    @stampede.cached_view(ttl=60)
    def page() -> Any:
        return view()

    with caplog.at_level(logging.WARNING, logger="stampede_guard"):
        answers = [
            app.test_client().get(
                "/",
                headers={"X-Api-Version": version, "X-Other": "1"},
                environ_overrides={"REMOTE_ADDR": f"10.0.0.{version}", "shop.tenant": tenant},
            )
            for version, tenant in (("1", "ann"), ("2", "bob"))
        ]
    assert [(one.status_code, one.text if one.status_code == 200 else "") for one in answers] == expected
    # An earlier test may have left a guard whose store is gone, which says so in a thread of its own.
    (told,) = [record.getMessage() for record in caplog.records if record.module == "views"]
    assert re.search(words, told), told


def test_what_flask_itself_looks_for_is_no_reason(stampede: Stampede, app: Flask) -> None:
    calls: list[int] = []

    @app.get("/")
    @stampede.cached_view(ttl=60)
    def page() -> Any:
        calls.append(1)
        return jsonify(
            [
                request.url, request.full_path, request.root_url, request.is_secure, request.is_json,
                request.content_type, request.mimetype, request.content_length, request.get_data(as_text=True),
                list(request.form), list(request.files), list(request.values), request.query_string.decode(),
                list(request.cookies), request.get_json(silent=True), request.method, request.blueprint,
                request.is_multithread, request.host, request.script_root,
            ]
        )  # fmt: skip

    first, second = (app.test_client().get("/?page=1") for _ in range(2))
    assert first.status_code == 200
    assert first.json == second.json
    assert calls == [1]


def test_an_error_of_a_view_that_looked_at_nothing_else_is_shared(stampede: Stampede, app: Flask) -> None:
    calls: list[int] = []

    @app.get("/")
    @stampede.cached_view(ttl=60, error_ttl=60)
    def page() -> str:
        calls.append(1)
        abort(410)

    assert [app.test_client().get("/").status_code for _ in range(2)] == [410] * 2
    assert calls == [1]


OF_G: dict[str, Callable[[], str]] = {
    "get": lambda: str(g.get("city", "none")),
    "pop": lambda: str(g.pop("city", "none")),
    "in": lambda: "rome" if "city" in g else "none",
    "getattr": lambda: str(getattr(g, "city", "none")),
    "template": lambda: render_template_string("{{ g.city|default('none') }}"),
}


@pytest.mark.parametrize("look", OF_G)
def test_a_caller_that_has_what_the_view_misses_in_g_gets_a_response_of_its_own(
    look: str, stampede: Stampede, app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[int] = []

    @app.before_request
    def find_city() -> None:
        if city := request.headers.get("X-City"):
            g.city = city

    @app.get("/")
    @stampede.cached_view(ttl=60)
    def page() -> str:
        calls.append(1)
        return OF_G[look]()

    client = app.test_client()
    of_a_city: dict[str, str] = {"X-City": "rome"}
    assert [client.get("/", headers=headers).text for headers in (of_a_city, {}, of_a_city, {})] == [
        "rome", "none", "rome", "none",
    ]  # fmt: skip
    assert len(calls) == 3, "one for all without a city, and one for each with one"
    told = [record.getMessage() for record in caplog.records if record.name == "stampede_guard"]
    assert len(told) == 1 and "with g.city" in told[0]


def test_what_a_view_keeps_in_g_for_itself_is_no_reason(stampede: Stampede, app: Flask) -> None:
    calls: list[int] = []

    @app.before_request
    def connect() -> None:
        g.database = "its own"

    @app.get("/")
    @stampede.cached_view(ttl=60)
    def page() -> str:
        calls.append(1)
        if "database" not in g:
            g.database = "connected"
        return str(g.database)

    assert [app.test_client().get("/").text for _ in range(2)] == ["connected"] * 2
    assert calls == [1]


class WithSlots:
    __slots__ = ("city",)


def test_an_application_may_have_a_g_of_its_own(stampede: Stampede, app: Flask) -> None:
    app.app_ctx_globals_class = WithSlots  # type: ignore[assignment]

    @app.get("/")
    @stampede.cached_view(ttl=60)
    def page() -> str:
        return str(getattr(g, "city", "none"))

    assert [app.test_client().get("/").text for _ in range(2)] == ["none"] * 2


def test_an_error_for_want_of_a_type_is_not_of_a_caller_that_sends_one(
    stampede: Stampede, app: Flask
) -> None:
    @app.get("/")
    @stampede.cached_view(ttl=60)
    def page() -> str:
        if not request.is_json:
            abort(415)
        return "JSON"

    client = app.test_client()
    for _ in range(2):
        assert client.get("/").status_code == 415
        assert client.get("/", headers={"Content-Type": "application/json"}).text == "JSON"


TYPE_READS: dict[str, Callable[[], str]] = {
    "the field": lambda: str(request.headers.get("Content-Type")),
    "whether it is JSON": lambda: "application/json" if request.is_json else "None",
    "its type": lambda: request.mimetype or "None",
}


@pytest.mark.parametrize("read", TYPE_READS)
@pytest.mark.parametrize("vary", [(), ("Content-Type",)])
def test_a_type_without_a_body_is_a_field_like_any_other(
    read: str, vary: tuple[str, ...], stampede: Stampede, app: Flask
) -> None:
    """The type of a body tells one GET from another, although it has no body."""
    calls: list[str] = []

    @app.get("/")
    @stampede.cached_view(ttl=60, vary=vary)
    def page() -> str:
        calls.append(TYPE_READS[read]())
        return calls[-1]

    client = app.test_client()
    for _ in range(2):
        for headers, expected in (({}, "None"), ({"Content-Type": "application/json"}, "application/json")):
            assert client.get("/", headers=headers).text == expected
    if vary:
        assert len(calls) == 2
