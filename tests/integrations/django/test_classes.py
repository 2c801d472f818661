"""Class-based views as Django's own page writes them, and what mistakes with views and helpers say."""

from __future__ import annotations

from concurrent.futures import wait as all_of
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.template.response import SimpleTemplateResponse
from django.test import RequestFactory
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import cache_control
from django.views.decorators.vary import vary_on_cookie

from stampede_guard.errors import KeyPartError, Misuse, PolicyError, UnsupportedValue
from stampede_guard.integrations.django import guard_of, locked_cache
from tests.integrations.django.gates import Gate, joined, threads

pytestmark = pytest.mark.usefixtures("site")


class Page(View):
    gate = Gate()

    def get(self, request: HttpRequest, number: int = 0) -> HttpResponse:
        self.gate.hold()
        return HttpResponse(f"{type(self).__name__} {number} {self.gate.entered}")


def by_dispatch(cached: Any) -> list[type[View]]:
    first = method_decorator(cached, name="dispatch")(type("First", (Page,), {}))
    return [first, type("Second", (first,), {})]  # type: ignore[misc,list-item]


def by_list(cached: Any) -> list[type[View]]:
    decorators = [vary_on_cookie, cached, cache_control(max_age=9)]
    first = method_decorator(decorators, name="dispatch")(type("First", (Page,), {}))
    return [first, type("Second", (first,), {})]  # type: ignore[misc,list-item]


def by_method(cached: Any) -> list[type[View]]:
    first = type("First", (Page,), {"get": cached(Page.get)})
    return [first, type("Second", (first,), {})]


def by_decorated_method(cached: Any) -> list[type[View]]:
    first = type("First", (Page,), {"get": method_decorator(cached)(Page.get)})
    return [first, type("Second", (first,), {})]


@pytest.mark.parametrize("written", [by_dispatch, by_list, by_method, by_decorated_method])
def test_a_class_has_one_computation_per_url_and_responses_of_its_own(written: Any) -> None:
    Page.gate = Gate()
    Page.gate.close()
    first, second = (one.as_view() for one in written(locked_cache(ttl=60)))
    request = RequestFactory()
    with threads(9) as submit:
        herd = [submit(lambda: first(request.get("/1"), number=1).content) for _ in range(8)]
        joined(guard_of(), 8)
        Page.gate.open()
        all_of(herd)
        assert {call.result() for call in herd} == {b"First 1 1"}
    assert first(request.get("/2"), number=2).content == b"First 2 2"
    assert second(request.get("/1"), number=1).content == b"Second 1 3"
    assert [one(request.get("/1"), number=1).content for one in (first, second)] == [
        b"First 1 1",
        b"Second 1 3",
    ]
    assert first(request.post("/1")).status_code == 405


async def test_a_coroutine_of_a_class_is_cached_and_its_dispatch_says_what_to_write() -> None:
    calls = []

    class Asking(View):
        async def get(self, request: HttpRequest) -> HttpResponse:
            calls.append(1)
            return HttpResponse("ok")

    cached = type("Cached", (Asking,), {"get": locked_cache(ttl=60)(Asking.get)})
    for _ in range(2):
        answer = await cached.as_view()(RequestFactory().get("/"))  # type: ignore[attr-defined]
        assert answer.content == b"ok"
    assert len(calls) == 1
    wrong = method_decorator(locked_cache(ttl=60), name="dispatch")(type("Wrong", (Asking,), {}))
    with pytest.raises(Misuse, match=r"Wrong\.dispatch\(\) returns coroutines: write .*Wrong\.as_view\(\)"):
        await wrong.as_view()(RequestFactory().get("/"))


def test_mistakes_say_what_to_write() -> None:
    from tests.integrations.django.shop.models import Product

    def wrong(req: Any) -> HttpResponse: ...

    with pytest.raises(UnsupportedValue, match=r"wrong\(\): .*call its first parameter `request`"):
        locked_cache(ttl=60)(wrong)

    @locked_cache(ttl=60)
    def page(req: Any) -> Any: ...

    with pytest.raises(KeyPartError, match="call the parameter `request` instead of 'req'"):
        page(RequestFactory().get("/"))
    with pytest.raises(PolicyError, match="do you mean ttl"):
        locked_cache(timeout=60)  # type: ignore[call-arg]
    with pytest.raises(Misuse, match="using='pages'"):
        locked_cache(ttl=60, cache="pages")  # type: ignore[call-arg]

    def one(shelf: int) -> Any: ...

    one.__annotations__["return"] = Product
    with pytest.raises(
        UnsupportedValue, match=r"one\(\): .*shop\.models\.Product.*list\(queryset\.values\(\)\)"
    ):
        locked_cache(ttl=60)(one)
    with pytest.raises(KeyPartError, match=r"it has: shelf\); do you mean \{shelf\}"):

        @locked_cache(ttl=60, tags=("shelf:{shelv}",))
        def two(shelf: int) -> int: ...

    @locked_cache(ttl=60)
    def three(rows: Any) -> int: ...

    with pytest.raises(KeyPartError, match=r"is a django QuerySet and .*: it is a query"):
        three(Product.objects.all())


@pytest.mark.parametrize("what", ["row", "query"])
def test_an_object_of_django_is_served_and_the_log_names_it_and_what_to_write(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    from tests.integrations.django.shop.models import Product

    Product.objects.create(name="tea")

    @locked_cache(ttl=60)
    def found() -> Any:
        return Product.objects.get() if what == "row" else Product.objects.all()

    found()
    kind = "tests Product" if what == "row" else "django QuerySet"
    assert kind in caplog.text
    assert "list(queryset.values())" in caplog.text
    assert "StampedeMiddleware" not in caplog.text


class Rendered(SimpleTemplateResponse):
    """As the `Response` of Django REST framework: somebody chooses the renderer after the method."""

    def __init__(self, data: Any) -> None:
        super().__init__(None)
        self.data = data

    @property
    def rendered_content(self) -> str:
        assert getattr(self, "accepted_renderer", None), ".accepted_renderer not set on Response"
        return str(self.data)


Rendered.__module__ = "rest_framework.response"


class Rest(View):
    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        response: Any = super().dispatch(request, *args, **kwargs)
        response.accepted_renderer = str
        return response


def test_a_method_whose_response_is_rendered_later_is_refused_with_what_to_write() -> None:
    class Page(Rest):
        @locked_cache(ttl=60)
        def get(self, request: Any) -> Any:
            return Rendered(7)

    with pytest.raises(
        Misuse, match=r"Page\.get\(\) returns a Rendered .* locked_cache\(ttl=60\)\(Page\.as_view"
    ):
        Page.as_view()(RequestFactory().get("/"))


async def test_so_is_an_async_method() -> None:
    class Page(View):
        @locked_cache(ttl=60)
        async def get(self, request: Any) -> Any:
            return Rendered(7)

    with pytest.raises(Misuse, match="around the whole view"):
        await Page.as_view()(RequestFactory().get("/"))


def test_the_whole_view_of_such_a_response_is_cached() -> None:
    entered = []

    class Page(Rest):
        def get(self, request: Any) -> Any:
            entered.append(1)
            return Rendered(7)

    page = locked_cache(ttl=60)(Page.as_view())
    assert [page(RequestFactory().get("/")).content for _ in range(2)] == [b"7"] * 2
    assert entered == [1]
