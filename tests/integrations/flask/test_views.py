"""`@stampede.cached_view`: which requests share a response, and which responses are shared."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from flask import (
    Blueprint,
    Flask,
    Response,
    abort,
    after_this_request,
    g,
    jsonify,
    make_response,
    redirect,
    render_template_string,
    request,
    send_file,
    session,
    stream_with_context,
    url_for,
)
from flask.typing import ResponseReturnValue
from flask.views import MethodView
from flask_login import LoginManager, UserMixin, current_user, login_user

from stampede_guard.errors import KeyPartError, Misuse, UnsupportedValue
from stampede_guard.integrations.flask import Stampede
from tests.integrations.flask.conftest import Make

PATIENCE = 60.0


class User(UserMixin):  # type: ignore[misc]
    def __init__(self, name: str) -> None:
        self.id = name


BODIES: dict[str, tuple[Callable[[], Any], str, str]] = {
    "text": (lambda: "<b>ü</b>", "<b>ü</b>", "text/html; charset=utf-8"),
    "dict": (lambda: {"a": [1, None]}, '{"a":[1,null]}\n', "application/json"),
    "list": (lambda: [1, 2], "[1,2]\n", "application/json"),
    "headers": (lambda: ("x", {"Content-Type": "text/plain"}), "x", "text/plain"),
    "status": (lambda: ({"a": 1}, 200, [("X-Shop", "open")]), '{"a":1}\n', "application/json"),
    "bytes": (lambda: Response(b"\x00\xff", mimetype="image/png"), "\x00ÿ", "image/png"),
    "template": (
        lambda: render_template_string("{{ request.path }}"),
        "/template",
        "text/html; charset=utf-8",
    ),
}


@pytest.mark.parametrize("kind", BODIES)
def test_whatever_a_view_may_return_comes_back_the_same(kind: str, stampede: Stampede, app: Flask) -> None:
    make_body, text, content_type = BODIES[kind]
    calls: list[int] = []

    @app.get(f"/{kind}")
    @stampede.cached_view(ttl=60)
    def view() -> Any:
        calls.append(1)
        return make_body()

    client = app.test_client()
    first, second, head = client.get(f"/{kind}"), client.get(f"/{kind}"), client.head(f"/{kind}")
    assert len(calls) == 1
    assert first.data == second.data == (text.encode("latin-1" if kind == "bytes" else "utf-8"))
    assert first.headers == second.headers == head.headers
    assert (first.status, head.data) == ("200 OK", b"")
    assert first.headers["Content-Type"] == content_type


def plain() -> str:
    return "page"


def cookie() -> Response:
    response = make_response("page")
    response.set_cookie("seen", "1")
    return response


def changes_session() -> str:
    session["seen"] = 1
    return "page"


def private() -> tuple[str, dict[str, str]]:
    return "page", {"Cache-Control": "private, max-age=60"}


def no_store() -> tuple[str, dict[str, str]]:
    return "page", {"Cache-Control": "no-store"}


def varies() -> tuple[str, dict[str, str]]:
    return "page", {"Vary": "Accept-Language"}


def varies_with_all() -> tuple[str, dict[str, str]]:
    return "page", {"Vary": "*"}


def streams() -> Response:
    return Response(stream_with_context(iter(["pa", "ge"])))


def sends_file() -> Response:
    return send_file(__file__)


def agent() -> str:
    return request.user_agent.string or "page"


def languages() -> str:
    return str(request.accept_languages)


def later() -> str:
    @after_this_request
    def mark(response: Response) -> Response:
        response.headers["X-Marked"] = "1"
        return response

    return "page"


OWN = {
    cookie: "it sets a cookie",
    changes_session: "it sets a cookie",
    private: "its Cache-Control forbids it",
    no_store: "its Cache-Control forbids it",
    varies: "it varies with accept-language: write vary=",
    varies_with_all: r"it varies with \*",
    streams: "it is a stream or a file",
    sends_file: "it is a stream or a file",
    agent: r"write vary=\('user-agent',\), or ignore=",
    languages: r"write vary=\('accept-language',\)",
    later: "the view used after_this_request",
}


@pytest.mark.parametrize("view", OWN, ids=lambda view: view.__name__)
def test_a_response_for_one_caller_is_computed_for_each(
    view: Callable[[], Any], stampede: Stampede, app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    app.get("/cached")(stampede.cached_view(ttl=60)(view))
    app.get("/plain", endpoint="plain")(view)
    names = {"Accept-Language": "de", "User-Agent": "robot"}
    client = app.test_client(use_cookies=False)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            seen = []
            for path in ("/cached", "/plain"):
                answer = client.get(path, headers=names)
                seen.append((answer.data, {name for name, _ in answer.headers}))
            assert seen[0] == seen[1]
    told = [record.getMessage() for record in caplog.records if "for each caller" in record.getMessage()]
    assert len(told) == 1
    assert re.search(OWN[view], told[0])


REQUESTS = {
    "a cookie": {"headers": {"Cookie": "theme=dark"}},
    "a credential": {"headers": {"Authorization": "Bearer x"}},
    "a token": {"headers": {"X-Auth-Token": "x"}},
    "a user": {"headers": {"X-User-Id": "7"}},
    "an empty credential beside a user": {"headers": {"Authorization": "", "X-Remote-User": "ann"}},
    "another method": {"headers": {"X-HTTP-Method-Override": "DELETE"}},
    "a user of the web server": {"environ_overrides": {"REMOTE_USER": "ann"}},
    "a body": {"data": b"x"},
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_request_that_shows_who_asks_is_not_cached(
    kind: str, stampede: Stampede, app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[str] = []

    @app.get("/")
    @stampede.cached_view(ttl=60)
    def view() -> str:
        calls.append(repr(sorted(request.cookies)))
        return f"{len(calls)}"

    client = app.test_client(use_cookies=False)
    asked: Any = REQUESTS[kind]
    with caplog.at_level(logging.INFO, "stampede_guard"):
        assert [client.get("/", **asked).text for _ in range(2)] == ["1", "2"]
    told = [record for record in caplog.records if "computes for each request with" in record.getMessage()]
    assert len(told) == ("headers" in asked)
    assert [client.get("/").text for _ in range(2)] == ["3", "3"]
    assert client.get("/", **asked).text == "4"


def test_a_view_that_reads_the_session_serves_users_their_own_page(stampede: Stampede, app: Flask) -> None:
    calls: list[str] = []

    @app.get("/login/<user>")
    def login(user: str) -> str:
        session["user"] = user
        return user

    @app.get("/")
    @stampede.cached_view(ttl=60)
    def view() -> str:
        calls.append(session.get("user", "nobody"))
        return f"hello {calls[-1]}"

    ann, bob, visitor = app.test_client(), app.test_client(), app.test_client()
    ann.get("/login/ann")
    bob.get("/login/bob")
    for client, user in ((ann, "ann"), (visitor, "nobody"), (bob, "bob"), (visitor, "nobody"), (ann, "ann")):
        answer = client.get("/")
        assert answer.text == f"hello {user}"
        assert "Cookie" in answer.headers["Vary"], "a cache in front of the application must know"
    assert calls.count("nobody") == 1


def test_ignored_fields_are_not_seen_by_the_computation(stampede: Stampede, app: Flask) -> None:
    seen: list[Any] = []

    @app.get("/")
    @stampede.cached_view(ttl=60, ignore=("Cookie", "Authorization", "User-Agent", "Remote-Addr"))
    def view() -> str:
        seen.append(
            (dict(request.cookies), request.authorization, request.user_agent.string, request.remote_addr)
        )
        return "the same for all"

    @app.get("/session")
    @stampede.cached_view(ttl=60, ignore="Cookie")
    def with_session() -> str:
        return str(session.get("user", "nobody"))

    @app.get("/login")
    def login() -> str:
        session["user"] = "ann"
        return ""

    client = app.test_client()
    client.get("/login")
    for user in ("ann", "bob"):
        assert client.get("/", headers={"Authorization": f"Bearer {user}"}).text == "the same for all"
    assert seen == [({}, None, "", None)]
    assert client.get("/session").text == "ann", "it reads the session, so its cookie cannot be ignored"


READS: dict[str, tuple[Callable[[], object], str, tuple[str, ...]]] = {
    "the address": (lambda: request.remote_addr, "request.remote_addr", ("remote-addr",)),
    "the route": (
        lambda: list(request.access_route),
        "request.remote_addr",
        ("remote-addr", "x-forwarded-for"),
    ),
    "the port": (
        lambda: request.environ.get("REMOTE_PORT"),
        "request.environ['REMOTE_PORT']",
        ("remote-port",),
    ),
    "a middleware's": (
        lambda: request.environ.get("shop.till"),
        "request.environ['shop.till']",
        ("shop.till",),
    ),
    "whether it is": (lambda: "shop.till" in request.environ, "request.environ['shop.till']", ("shop.till",)),
}


@pytest.mark.parametrize("what", READS)
def test_what_the_request_of_a_key_has_not_is_the_callers_own_and_the_log_names_it_and_the_cure(
    what: str, stampede: Stampede, app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    read, name, ignored = READS[what]

    def view() -> str:
        return repr(read())

    app.get("/")(stampede.cached_view(ttl=60)(view))
    app.get("/plain", endpoint="plain")(view)
    app.get("/ignoring", endpoint="ignoring")(
        stampede.cached_view(ttl=60, name="ignoring", ignore=ignored)(view)
    )
    client = app.test_client()
    visitors = [
        {"REMOTE_ADDR": f"192.0.2.{number}", "REMOTE_PORT": number, "shop.till": number}
        for number in (1, 2, 1)
    ]
    for visitor in visitors:
        assert (
            client.get("/", environ_overrides=visitor).text
            == client.get("/plain", environ_overrides=visitor).text
        )
    (warned,) = [one.message for one in caplog.records if "computed for each caller" in one.message]
    assert name in warned and "as an argument" in warned and all(repr(field) in warned for field in ignored)

    assert len({client.get("/ignoring", environ_overrides=visitor).text for visitor in visitors}) == 1


def test_fields_that_vary_are_in_the_key_and_in_the_request(stampede: Stampede, app: Flask) -> None:
    calls: list[str] = []

    @app.get("/")
    @stampede.cached_view(ttl=60, vary=("Accept-Language", "X-Tenant"))
    def view() -> tuple[str, dict[str, str]]:
        calls.append(request.headers.get("X-Tenant", "none"))
        return f"{request.accept_languages.best} {calls[-1]}", {"Vary": "Accept-Language"}

    client = app.test_client(use_cookies=False)
    for _ in range(2):
        for tenant in ("a", "b", ""):
            for language in ("de", "en"):
                headers = {"Accept-Language": language} | ({"X-Tenant": tenant} if tenant else {})
                assert client.get("/", headers=headers).text == f"{language} {tenant or 'none'}"
    assert len(calls) == 6


def test_the_key_has_the_whole_url_and_query_names_what_counts(stampede: Stampede, app: Flask) -> None:
    calls: list[str] = []

    @app.get("/all/<name>")
    @stampede.cached_view(ttl=60)
    def everything(name: str) -> str:
        calls.append(request.url)
        return f"{request.url} {url_for('everything', name=name, _external=True)}"

    @app.get("/some")
    @stampede.cached_view(ttl=60, query=("page", "sort"))
    def some() -> str:
        calls.append(request.url)
        return repr(sorted(request.args.items(multi=True)))

    client = app.test_client()
    urls = ["http://a/all/x?b=1", "http://a/all/x?b=2", "http://b/all/x?b=1", "https://a/all/x?b=1",
            "http://a:8080/all/x?b=1", "http://a/all/%C3%BC%2F"]  # fmt: skip
    for url in urls[:5] * 2:
        base, _, path = url.rpartition("/all")
        assert client.get("/all" + path, base_url=base).text == f"{url} {base}/all/x"
    assert calls == urls[:5]
    calls.clear()
    for query in ("page=1&utm_source=x", "utm_source=y&page=1", "page=1"):
        assert client.get(f"/some?{query}").text == "[('page', '1')]"
    assert (
        client.get("/some?page=1&page=2&sort=a%26b").text == "[('page', '1'), ('page', '2'), ('sort', 'a&b')]"
    )
    assert len(calls) == 2


def test_another_status_is_served_to_the_callers_of_its_flight_and_not_stored(
    stampede: Stampede, app: Flask
) -> None:
    calls: list[str] = []

    @app.get("/<what>")
    @stampede.cached_view(ttl=60)
    def view(what: str) -> Any:
        calls.append(what)
        if what == "aborted":
            abort(404, "no such thing")
        return {"missing": ({"no": what}, 404), "moved": redirect("/there"), "denied": ("", 403)}[what]

    client = app.test_client()
    for what, status in (("missing", 404), ("aborted", 404), ("moved", 302), ("denied", 403)):
        calls.clear()
        answers = [client.get(f"/{what}") for _ in range(2)]
        assert [answer.status_code for answer in answers] == [status] * 2
        assert answers[0].data == answers[1].data
    assert client.get("/moved").headers["Location"] == "/there"
    assert len(calls) == 5, "a response that is only for one caller is computed by each"


def test_a_herd_computes_a_page_once(stampede: Stampede, app: Flask) -> None:
    calls: list[int] = []
    arrived, opened = threading.Event(), threading.Event()

    @app.get("/")
    @stampede.cached_view(ttl=60)
    def view() -> str:
        calls.append(1)
        arrived.set()
        assert opened.wait(PATIENCE)
        return "page"

    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(lambda: app.test_client().get("/").text) for _ in range(8)]
        assert arrived.wait(PATIENCE)
        opened.set()
        assert {answer.result(PATIENCE) for answer in answers} == {"page"}
    assert calls == [1]


def test_functions_around_requests_run_for_callers_and_not_for_the_computation(
    stampede: Stampede, app: Flask
) -> None:
    log: list[str] = []
    shop = Blueprint("shop", __name__, url_prefix="/<language>")
    app.before_request(lambda: log.append("before"))
    app.teardown_request(lambda error: log.append("teardown"))

    @app.after_request
    def after(response: Response) -> Response:
        log.append("after")
        response.headers["X-Shop"] = "open"
        return response

    @shop.url_value_preprocessor
    def take(endpoint: str | None, values: dict[str, Any] | None) -> None:
        assert values is not None
        g.language = values.pop("language")

    @shop.get("/page/<int:number>")
    @stampede.cached_view(ttl=60, tags=("page:{number}",))
    def page(number: int) -> str:
        log.append("view")
        return f"{g.language} {number}"

    app.register_blueprint(shop)
    client = app.test_client()
    assert client.get("/de/page/1").text == "de 1"
    assert log == ["before", "view", "teardown", "after", "teardown"]
    assert (client.get("/en/page/1").text, client.get("/de/page/1").headers["X-Shop"]) == ("en 1", "open")
    assert log.count("view") == 2
    with app.app_context():
        assert stampede.guard.sync.invalidate_tag("page:1") == "done"
    assert client.get("/de/page/1").text == "de 1"
    assert log.count("view") == 3


def test_a_view_that_fails_without_what_before_request_put_into_g_serves_each_caller_its_own(
    stampede: Stampede, app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    @app.before_request
    def who() -> None:
        if user := request.headers.get("X-Who"):
            g.user = user

    @app.get("/")
    @stampede.cached_view(ttl=60)
    def view() -> str:
        return str(g.user)

    client = app.test_client()
    of_ann: dict[str, str] = {"X-Who": "ann"}
    of_ben: dict[str, str] = {"X-Who": "ben"}
    assert [client.get("/", headers=fields).text for fields in (of_ann, of_ben)] == ["ann", "ben"]
    assert any("it fails without g.user" in record.getMessage() for record in caplog.records)
    app.testing = True
    with pytest.raises(AttributeError, match="user"):
        client.get("/")


def test_classes_of_views_and_coroutines(stampede: Stampede, app: Flask) -> None:
    calls: list[str] = []

    class Page(MethodView):
        decorators = [stampede.cached_view(ttl=60)]  # noqa: RUF012 - Flask's own type

        def get(self, number: int) -> str:
            calls.append(f"get {number}")
            return f"page {number}"

        def post(self, number: int) -> str:
            calls.append(f"post {number}")
            return "posted"

    class Other(MethodView):
        def get(self) -> str:
            calls.append("other")
            return "other"

    app.add_url_rule("/page/<int:number>", view_func=Page.as_view("page"))
    app.add_url_rule("/other", view_func=stampede.cached_view(ttl=60)(Other.as_view("other")))

    @app.get("/async")
    @stampede.cached_view(ttl=60)
    async def coroutine() -> str:
        calls.append("async")
        return request.path

    client = app.test_client()
    for _ in range(2):
        assert [client.get(path).text for path in ("/page/1", "/page/2", "/other", "/async")] == [
            "page 1", "page 2", "other", "/async",
        ]  # fmt: skip
        assert client.post("/page/1").text == "posted"
    assert sorted(calls) == ["async", "get 1", "get 2", "other", "post 1", "post 1"]


def test_an_argument_that_is_no_part_of_the_url_is_in_the_key(stampede: Stampede, app: Flask) -> None:
    def with_user(view: Any) -> Any:
        return lambda: view(user=request.headers["X-Name"])

    @stampede.cached_view(ttl=60)
    def view(user: str) -> str:
        return f"hello {user}"

    app.get("/", endpoint="page")(with_user(view))
    client = app.test_client()
    for user in ("ann", "bob", "ann"):
        assert client.get("/", headers={"X-Name": user}).text == f"hello {user}"
    with app.test_request_context("/"), pytest.raises(KeyPartError, match="user"):
        view(user=object())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": "a"}, "cached_view has no key="),
        ({"unkeyed": ("a",)}, "cached_view has no unkeyed="),
        ({"vary": ("Cookie",)}, "vary= names cookie, which proves who a visitor is"),
        ({"vary": ("User-Agent",), "ignore": ("user-agent",)}, "both name user-agent"),
        ({"query": (1,)}, "query= takes names"),
        ({"very": ("X-Tenant",)}, "vary"),
    ],
)
def test_options_that_cannot_work_are_errors(options: Any, words: str, stampede: Stampede) -> None:
    with pytest.raises(Misuse, match=words):
        stampede.cached_view(ttl=60, **options)(plain)
    with pytest.raises(Misuse, match=r"as_view\('page'\)"):
        stampede.cached_view(ttl=60)(MethodView)


def test_mode_off_computes_with_a_request_of_its_own_too(make: Make, stampede: Stampede) -> None:
    app = make(STAMPEDE_GUARD_MODE="off")
    calls: list[int] = []

    @app.get("/")
    @stampede.cached_view(ttl=60)
    def view() -> str:
        calls.append(1)
        return request.args["page"]

    assert [app.test_client().get("/?page=3").text for _ in range(2)] == ["3", "3"]
    assert len(calls) == 2


def test_a_view_whose_decorators_stand_in_the_wrong_order_is_reported_once(
    stampede: Stampede, app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    @stampede.cached_view(ttl=60)
    @app.get("/wrong")
    def wrong() -> str:
        return "page"

    @stampede.locked_cache(ttl=60)
    @app.get("/data")
    def data() -> str:
        return "data"

    @app.get("/right")
    @stampede.cached_view(ttl=60)
    def right() -> str:
        return "page"

    client = app.test_client()
    with caplog.at_level(logging.WARNING):
        for path in ("/right", "/wrong", "/data", "/right"):
            client.get(path)
    told = [record.getMessage().partition(":")[0] for record in caplog.records]
    assert told == ["the view 'wrong' is not cached", "the view 'data' is not cached"]


def test_pages_of_applications_with_flask_login(stampede: Stampede, app: Flask) -> None:
    """It looks at header fields to compare them with the session. That is no reason to compute for each visitor."""
    rendered: list[str] = []
    login = LoginManager(app)
    login.user_loader(lambda key: User(key))

    @app.post("/login/<name>")
    def enter(name: str) -> str:
        login_user(User(name))
        return ""

    @app.get("/")
    @stampede.cached_view(ttl=60)
    def home() -> str:
        name = current_user.id if current_user.is_authenticated else "visitor"
        rendered.append(name)
        return f"hello {name}"

    @stampede.locked_cache(ttl=60)
    def mine() -> str:
        return str(current_user.id)

    app.get("/mine", endpoint="mine")(lambda: mine())
    app.testing = True
    visitors, ann = [app.test_client() for _ in range(3)], app.test_client()
    ann.post("/login/ann")
    for _ in range(2):
        assert {client.get("/").text for client in visitors} == {"hello visitor"}
        assert ann.get("/").text == "hello ann"
    assert rendered == ["visitor", "ann", "ann"]
    with pytest.raises(Misuse, match=r"there is no current_user.*mine\(\.\.\., id=current_user\.id\)"):
        ann.get("/mine")


def test_a_response_is_no_value_of_a_cached_function(
    stampede: Stampede, app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UnsupportedValue, match=r"cache whole responses with @stampede\.cached_view"):

        @stampede.locked_cache(ttl=60)
        def declared() -> Response:
            return make_response("page")

    for annotation in (ResponseReturnValue, "ResponseReturnValue"):

        def typed() -> Any:
            return "page"

        typed.__annotations__["return"] = annotation
        with pytest.raises(
            UnsupportedValue, match=r"typed\(\) is annotated as a view.*@stampede\.cached_view"
        ):
            stampede.locked_cache(ttl=60)(typed)
        assert callable(stampede.cached_view(ttl=60)(typed))

    @app.get("/")
    @stampede.locked_cache(ttl=60)
    def view():  # type: ignore[no-untyped-def]
        return jsonify([1])

    with caplog.at_level(logging.ERROR):
        assert [app.test_client().get("/").json for _ in range(2)] == [[1], [1]]
    assert "cache whole responses with @stampede.cached_view" in caplog.text


def test_keys_do_not_show_the_url(stampede: Stampede, app: Flask, valkey_url: str, namespace: str) -> None:
    @app.get("/reset/<token>")
    @stampede.cached_view(ttl=60)
    def reset(token: str) -> str:
        return "page"

    assert app.test_client().get("/reset/s3cret", base_url="http://a").text == "page"
    assert app.test_client().get("/reset/x?s3cret", base_url="http://a").text == "page"
    with redis.Redis.from_url(valkey_url) as client:
        names = list(client.scan_iter(f"*{namespace}*"))
    assert any(b"reset" in name for name in names)
    assert not any(b"s3cret" in name for name in names)
