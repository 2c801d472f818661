"""`@locked_cache` on helpers, sync views and async views of a Django site."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import threading
from typing import Any

import pytest
from django.contrib import messages
from django.contrib.messages.storage.cookie import CookieStorage
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, connections, transaction
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.middleware.csrf import get_token
from django.template import engines
from django.template.response import TemplateResponse
from django.test import RequestFactory, override_settings
from django.utils import translation
from django.views import View

from stampede_guard import Misuse, StampedeGuard
from stampede_guard.integrations.django import guard_of, locked_cache
from tests.api.test_in_thread_forks import end_of_child
from tests.integrations.django.gates import PATIENCE, Gate, joined, threads, until

pytestmark = pytest.mark.usefixtures("site")


# --- helpers -------------------------------------------------------------------------------------------


def test_one_of_forty_threads_computes_in_its_own_thread() -> None:
    gate, here = Gate(), set()
    gate.close()

    @locked_cache(ttl=60)
    def total(shelf: int) -> int:
        gate.hold()
        here.add(threading.get_ident())
        return shelf * 10

    callers = set()

    def call() -> int:
        callers.add(threading.get_ident())
        return total(7)

    with threads(40) as submit:
        calls = [submit(call) for _ in range(40)]
        joined(guard_of(), 40)
        gate.open()
        assert {call.result() for call in calls} == {70}
    assert gate.entered == len(here) == 1
    assert here <= callers
    assert total(7) == 70


def test_a_computation_sees_its_callers_transaction_and_leaves_no_connection() -> None:
    from tests.integrations.django.shop.models import Note

    @locked_cache(ttl=60)
    def notes() -> list[Any]:
        return [Note.objects.count(), id(connection.connection)]

    with transaction.atomic():
        Note.objects.create(text="not committed")
        assert notes() == [1, id(connection.connection)]


def test_a_transaction_that_changed_a_mapped_model_sees_its_change_and_shares_nothing() -> None:
    from tests.integrations.django.shop.models import Product

    @locked_cache(ttl=60, tags=("products",))
    def products() -> int:
        return Product.objects.count()

    with threads(1) as submit:
        with pytest.raises(LookupError), transaction.atomic():
            Product.objects.create(name="chair")
            assert products() == 1
            assert submit(products).result() == 0
            raise LookupError
        assert products() == submit(products).result() == 0
        with transaction.atomic():
            Product.objects.create(name="chair")
            assert (products(), submit(products).result()) == (1, 0)
        assert products() == submit(products).result() == 1


def test_a_refresh_in_such_a_transaction_shares_nothing_before_the_commit() -> None:
    from tests.integrations.django.shop.models import Product

    @locked_cache(ttl=60)
    def products() -> int:
        return Product.objects.count()

    assert products() == 0
    with threads(1) as submit:
        with pytest.raises(LookupError), transaction.atomic():
            Product.objects.create(name="chair")
            assert products.refresh() == 1
            assert submit(products).result() == 0
            raise LookupError
        assert products() == 0
        with transaction.atomic():
            Product.objects.create(name="chair")
            assert products.refresh() == 1
        assert products() == submit(products).result() == 1


class Numbered:
    def __init__(self, number: int) -> None:
        self.number = number

    def __cache_key__(self) -> int:
        return self.number

    def sales(self, day: str, *more: int, log: list[str], **rest: int) -> str:
        log.append(day)
        return f"{self.number} {day} {more} {rest}"

    @staticmethod
    def rent(month: str) -> str:
        return month


def test_arguments_defaults_methods_and_unkeyed_parameters_work(monkeypatch: pytest.MonkeyPatch) -> None:
    sales = locked_cache(ttl=60, name="shop.sales", unkeyed=("log",))(Numbered.sales)
    rent = locked_cache(ttl=60, name="shop.rent", key=lambda month: month.lower())(Numbered.rent)
    monkeypatch.setattr(Numbered, "sales", sales)
    monkeypatch.setattr(Numbered, "rent", staticmethod(rent))
    log: list[str] = []
    for _ in range(2):
        assert Numbered(1).sales("monday", 2, log=log, tax=3) == "1 monday (2,) {'tax': 3}"
        assert Numbered(2).sales("monday", log=log) == "2 monday () {}"
    assert log == ["monday"] * 2
    assert (Numbered.rent("MAY"), Numbered.rent("may")) == ("MAY", "MAY")
    assert Numbered.rent.invalidate("May") == "done"
    assert Numbered.rent("may") == "may"


def test_a_helper_takes_a_template_as_its_key() -> None:
    calls = []

    @locked_cache(ttl="1m", key="shelf:{shelf}")
    def total(shelf: int, trace: object) -> int:
        calls.append(shelf)
        return len(calls)

    assert (total(7, object()), total(7, object()), total(8, object())) == (1, 1, 2)
    assert total.key(7, object()).endswith(":shelf:7")
    assert total.invalidate(7, None) == "done"
    assert total(7, None) == 3


def test_refresh_and_invalidate() -> None:
    calls = []

    @locked_cache(ttl=60)
    def total(shelf: int) -> int:
        calls.append(shelf)
        return len(calls)

    assert (total(7), total.refresh(7), total(7)) == (1, 2, 2)
    assert total.invalidate(7) == "done"
    assert (total(7), total(8), total(7)) == (3, 4, 3)


def test_a_computation_runs_in_the_default_language_and_its_error_is_raised_as_it_is() -> None:
    @locked_cache(ttl=60)
    def language() -> str | None:
        return translation.get_language()

    @locked_cache(ttl=60)
    def missing() -> int:
        raise LookupError("no such product")

    with translation.override("de"):
        assert language() == "en-us"
        assert translation.get_language() == "de"
    with pytest.raises(LookupError, match="no such product"):
        missing()


def test_a_query_set_is_served_uncached_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    from tests.integrations.django.shop.models import Product

    @locked_cache(ttl=60)
    def products():  # type: ignore[no-untyped-def]
        return Product.objects.all()

    Product.objects.create(name="chair")
    for _ in range(2):
        assert [one.name for one in products()] == ["chair"]
    assert len([one for one in caplog.records if one.levelname == "ERROR" and "QuerySet" in one.message]) == 1


def test_an_error_that_no_future_can_hold_ends_the_call_at_once() -> None:
    @locked_cache(ttl=60)
    def empty() -> int:
        return next(iter(()))

    with pytest.raises(RuntimeError, match="StopIteration"):
        empty()


def test_a_cached_function_may_call_another_one_and_a_circle_is_an_error() -> None:
    @locked_cache(ttl=60)
    def inner(shelf: int) -> int:
        return shelf

    @locked_cache(ttl=60)
    def outer(shelf: int) -> int:
        return inner(shelf) + 1

    @locked_cache(ttl=60)
    def circle(shelf: int) -> int:
        return int(circle(shelf))

    assert outer(7) == 8
    with pytest.raises(Misuse, match="circle"):
        circle(7)


async def test_one_of_forty_tasks_computes_with_connections_that_are_closed() -> None:
    from tests.integrations.django.shop.models import Note

    entered, opened, used = 0, asyncio.Event(), []

    @locked_cache(ttl=60)
    async def notes() -> int:
        nonlocal entered
        entered += 1
        await opened.wait()
        count = await Note.objects.acount()

        def look() -> None:
            used.append(connections["default"])

        from asgiref.sync import sync_to_async

        await sync_to_async(look)()
        return count

    calls = [asyncio.create_task(notes()) for _ in range(40)]
    await asyncio.to_thread(joined, guard_of(), 40)
    opened.set()
    assert await asyncio.gather(*calls) == [0] * 40
    assert entered == 1
    assert [one.connection for one in used] == [None]
    assert await notes.invalidate() == "done"
    assert (await notes(), await notes.refresh()) == (0, 0)
    assert entered == 3


async def test_a_cancelled_leader_hands_over_to_a_passenger() -> None:
    gates: list[asyncio.Event] = []

    @locked_cache(ttl=60)
    async def total() -> int:
        gates.append(asyncio.Event())
        await gates[-1].wait()
        return len(gates)

    leader = asyncio.create_task(total())
    async with asyncio.timeout(60):
        while not gates:  # noqa: ASYNC110 - the computation of the leader begins
            await asyncio.sleep(0)
    passenger = asyncio.create_task(total())
    await asyncio.to_thread(joined, guard_of(), 2)
    leader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leader
    async with asyncio.timeout(60):
        while len(gates) < 2:  # noqa: ASYNC110 - the computation of the passenger begins
            await asyncio.sleep(0)
        gates[1].set()
        assert await passenger == 2


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("what", ["helper", "helper with a key", "view"])
def test_an_interrupted_leader_hands_over_to_a_passenger(
    what: str, interruption: type[BaseException]
) -> None:
    gate = Gate()
    gate.close()

    def total(number: Any) -> Any:
        gate.hold()
        if gate.entered == 1:
            raise interruption
        return threading.current_thread().name

    def page(request: Any) -> HttpResponse:
        return HttpResponse(total(7))

    key: Any = {"key": lambda number: number} if what == "helper with a key" else {}
    # Without the hand-over, the passenger would wait for the end of the computation.
    cached = locked_cache(ttl=60, compute_timeout=3600, wait_timeout=3600, **key)(
        page if what == "view" else total
    )

    def call() -> tuple[str, str]:
        found = cached(asked.get("/")).content.decode() if what == "view" else cached(7)
        return found, threading.current_thread().name

    with threads(2) as submit:
        leader = submit(call)
        until(lambda: gate.entered == 1)
        passenger = submit(call)
        joined(guard_of(), 2)
        gate.open()
        with pytest.raises(interruption):
            leader.result(PATIENCE)
        value, thread = passenger.result(PATIENCE)
    assert (value, gate.entered) == (thread, 2)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_in_a_child_that_a_helper_forks_the_call_ends_too() -> None:
    children: list[int] = []

    @locked_cache(ttl=60)
    def forks() -> str:
        children.append(os.fork())
        if not children[-1]:
            signal.alarm(int(PATIENCE))
        return "parent" if children[-1] else "child"

    assert end_of_child(forks, children.pop) == ("parent", 7)


def test_without_a_cache_of_ours_the_error_names_the_backend() -> None:
    dummy = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    with (
        override_settings(CACHES=dummy),
        pytest.raises(ImproperlyConfigured, match=r"integrations\.django\.Cache"),
    ):
        locked_cache(ttl=60)(len)
    with pytest.raises(ImproperlyConfigured, match="missing"):
        guard_of("missing")
    assert isinstance(guard_of(), StampedeGuard)


# --- views ---------------------------------------------------------------------------------------------

asked = RequestFactory()
numbers = itertools.count()


def test_a_herd_of_requests_is_one_call_of_the_view_and_equal_responses() -> None:
    gate = Gate()
    gate.close()

    @locked_cache(ttl=60, tags=("page:{number}",))
    def page(request: Any, number: int) -> HttpResponse:
        gate.hold()
        return HttpResponse(f"page {number}", headers={"X-Shop": "open"})

    with threads(20) as submit:
        calls = [submit(lambda: page(asked.get("/page/7"), number=7)) for _ in range(20)]
        joined(guard_of(), 20)
        gate.open()
        answers = [*(call.result() for call in calls), page(asked.get("/page/7"), number=7)]
    assert {(one.content, one["X-Shop"], one.status_code) for one in answers} == {(b"page 7", "open", 200)}
    assert len({id(one) for one in answers}) == 21, "middleware may change its own response"
    assert gate.entered == 1
    guard_of().sync.invalidate_tag("page:7")
    page(asked.get("/page/7"), number=7)
    assert gate.entered == 2


def _entered(view: Any, *requests: Any, **options: Any) -> int:
    """How often the view is called for these requests."""
    calls: list[Any] = []

    def counted(request: Any) -> Any:
        calls.append(request)
        return view(request)

    cached = locked_cache(ttl=60, name=f"counted {next(numbers)}", **options)(counted)
    for request in requests:
        cached(request)
    return len(calls)


def _session_used(request: Any) -> HttpResponse:
    request.session = type("Session", (), {"accessed": True})()
    return HttpResponse()


def _with_cookie(_: Any) -> HttpResponse:
    response = HttpResponse()
    response.set_cookie("seen", "1")
    return response


def _with_message(request: Any) -> HttpResponse:
    request._messages = CookieStorage(request)  # as the middleware does
    messages.info(request, "saved")
    return HttpResponse()


UNSHARED = {
    "a status": lambda _: HttpResponse(status=404),
    "a stream": lambda _: StreamingHttpResponse([b"a"]),
    "a cookie": _with_cookie,
    "a token": lambda request: HttpResponse(get_token(request)),
    "a session": _session_used,
    "a message": _with_message,
    "private": lambda _: HttpResponse(headers={"Cache-Control": "max-age=60, private"}),
    "vary": lambda _: HttpResponse(headers={"Vary": "X-Shop"}),
    "vary on all": lambda _: HttpResponse(headers={"Vary": "*"}),
}


@pytest.mark.parametrize("what", UNSHARED)
def test_a_response_that_belongs_to_one_visitor_is_not_stored(what: str) -> None:
    assert _entered(UNSHARED[what], asked.get("/"), asked.get("/")) == 2


@pytest.mark.parametrize(
    "field", ["HTTP_X_USER_ID", "HTTP_X_TENANT", "REMOTE_USER", "SSL_CLIENT_S_DN"], ids=lambda field: field
)
def test_what_names_a_user_is_no_shared_request(field: str) -> None:
    @locked_cache(ttl=60)
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse(f"page of {request.META.get(field)}")

    for user in ("ann", "ben"):
        request = RequestFactory().get("/", **{field: user})
        assert view(request).content == f"page of {user}".encode()


def test_a_place_that_a_client_invents_is_in_the_key() -> None:
    @locked_cache(ttl=60)
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse(request.headers.get("X-Forwarded-Host", request.get_host()))

    assert view(RequestFactory().get("/", HTTP_X_FORWARDED_HOST="evil.example")).content == b"evil.example"
    assert view(RequestFactory().get("/")).content == b"testserver"


def test_requests_with_credentials_are_not_cached_unless_a_key_says_what_counts() -> None:
    def hello(request: Any) -> HttpResponse:
        return HttpResponse("hello")

    cookie = asked.get("/", HTTP_COOKIE="sessionid=1")
    bearer = asked.get("/", HTTP_AUTHORIZATION="Bearer 1")
    assert _entered(hello, cookie, cookie, bearer, bearer) == 4
    assert _entered(hello, cookie, cookie, bearer, bearer, key=lambda request: request.path) == 1


def test_a_view_takes_a_template_as_its_key() -> None:
    entered = []

    @locked_cache(ttl=60, key="page:{pk}")
    def page(request: Any, pk: int) -> HttpResponse:
        entered.append(pk)
        return HttpResponse(f"page {pk}")

    cookie = asked.get("/", HTTP_COOKIE="sessionid=1")
    assert [page(cookie, 7).content, page(asked.get("/?a=1"), pk=7).content] == [b"page 7"] * 2
    assert page(cookie, 8).content == b"page 8"
    assert entered == [7, 8]


def test_urls_methods_hosts_and_languages_have_their_own_responses() -> None:
    def hello(request: Any) -> HttpResponse:
        return HttpResponse(translation.get_language())

    requests = [
        asked.get("/?a=1"),
        asked.get("/?a=2"),
        asked.head("/?a=1"),
        asked.get("/?a=1", HTTP_HOST="b.example"),
    ]
    assert _entered(hello, *requests, *requests) == 4
    assert _entered(hello, asked.post("/"), asked.post("/")) == 2
    cached = locked_cache(ttl=60)(hello)
    for _ in range(2):
        for language in ("de", "en"):
            with translation.override(language):
                assert cached(asked.get("/")).content.decode() == language


def test_template_responses_are_rendered_and_class_based_views_have_names() -> None:
    template = engines["django"].from_string("{{ number }}")

    class First(View):
        def get(self, request: Any) -> TemplateResponse:
            return TemplateResponse(request, template, {"number": 1})

    class Second(View):
        def get(self, request: Any) -> TemplateResponse:
            return TemplateResponse(request, template, {"number": 2})

    first, second = (locked_cache(ttl=60)(view.as_view()) for view in (First, Second))
    for _ in range(2):
        assert (first(asked.get("/")).content, second(asked.get("/")).content) == (b"1", b"2")


async def test_an_async_view_is_called_once_and_what_is_not_shared_is_passed_through() -> None:
    calls = []

    @locked_cache(ttl=60)
    async def page(request: Any) -> HttpResponse:
        calls.append(request)
        await asyncio.sleep(0)
        return HttpResponse("page", status=200 if request.path == "/" else 404)

    answers = await asyncio.gather(*(page(asked.get("/")) for _ in range(20)))
    assert ({one.content for one in answers}, len(calls)) == ({b"page"}, 1)
    assert [(await page(asked.get("/no"))).status_code for _ in range(2)] == [404, 404]
    assert len(calls) == 3
    assert (await page(asked.post("/"))).status_code == 200


def test_options_that_a_view_cannot_have_are_errors() -> None:
    with pytest.raises(Misuse, match="should_cache"):
        locked_cache(ttl=60, should_cache=bool)(lambda request: None)
    with pytest.raises(Misuse, match="with parentheses"):
        locked_cache(len)
