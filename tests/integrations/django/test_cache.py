"""The cache backend: Django's own calls, and what becomes of their herds."""

from __future__ import annotations

import asyncio
import datetime
import decimal
from concurrent.futures import wait as all_of
from typing import Any

import pytest
import redis
from django.core.cache import cache, caches
from django.http import HttpResponse, JsonResponse
from django.test import Client, RequestFactory, override_settings
from django.utils.safestring import SafeString, mark_safe

from bench.herd.valkey import ValkeyServer
from stampede_guard.errors import UnsupportedValue
from stampede_guard.integrations.django import Cache, guard_of
from tests.integrations.django.gates import Gate, joined, threads, until
from tests.integrations.django.shop.settings import caches_at

pytestmark = pytest.mark.usefixtures("site")


# --- values --------------------------------------------------------------------------------------------

VALUES = [
    None, False, 0, -7, 2**70, 1.5, "", "grün", b"\x80\x04", [1, (2, {3})], {"a": {1: None}},
    datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), decimal.Decimal("1.10"),
]  # fmt: skip


@pytest.mark.parametrize(
    "value", VALUES, ids=[f"{type(value).__name__}-{n}" for n, value in enumerate(VALUES)]
)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    cache.set("key", value)
    for found in (
        cache.get("key", "nothing"),
        cache.get_or_set("key", lambda: "other"),
        cache.get_many(["key"])["key"],
    ):
        assert found == value
        assert type(found) is type(value)


def test_a_rendered_fragment_stays_safe_and_a_text_does_not_become_it() -> None:
    cache.set_many({"safe": mark_safe("<b>"), "plain": "<b>"})
    assert [type(cache.get(key)) for key in ("safe", "plain")] == [SafeString, str]


def test_a_rendered_fragment_stays_safe_inside_of_other_values() -> None:
    safe, wild = mark_safe("<b>ü</b>"), mark_safe("\ud800")
    cache.set(
        "key", {"list": [safe, "<b>", {safe: 1}], "tuple": (safe, {"set": {safe}}), "wild": wild, 7: safe}
    )
    found = cache.get("key")
    assert found == {
        "list": [safe, "<b>", {safe: 1}],
        "tuple": (safe, {"set": {safe}}),
        "wild": wild,
        7: safe,
    }
    marked = [
        found["list"][0],
        *found["list"][2],
        found["tuple"][0],
        *found["tuple"][1]["set"],
        found["wild"],
        found[7],
    ]
    assert {type(one) for one in marked} == {SafeString}
    assert type(found["list"][1]) is str


def test_a_response_comes_back_with_status_headers_cookies_and_content() -> None:
    response = JsonResponse({"a": "ü"}, status=203, headers={"X-Shop": "open"})
    response.set_cookie("seen", "a b", max_age=60, httponly=True, samesite="Lax")
    cache.set("key", response)
    found = cache.get("key")
    assert type(found) is HttpResponse
    assert (found.status_code, found.content, dict(found.items())) == (
        203,
        response.content,
        dict(response.items()),
    )
    assert found.cookies.output() == response.cookies.output()


def test_nothing_is_pickled_and_what_needs_it_is_an_error_that_names_the_type(
    valkey_url: str, namespace: str
) -> None:
    cache.set("page", HttpResponse("hello"))
    with redis.Redis.from_url(valkey_url) as client:
        (stored,) = [client.get(name) for name in client.scan_iter(f"django:{namespace}/*")]
    assert stored is not None and not stored.startswith(b"\x80")
    with pytest.raises(UnsupportedValue, match=r'asyncio\S*\.Event.*serializer": "pickle"'):
        cache.set("event", asyncio.Event())


def test_a_damaged_value_is_a_miss(valkey_url: str, namespace: str) -> None:
    cache.set("key", "value")
    with redis.Redis.from_url(valkey_url) as client:
        (name,) = client.scan_iter(f"django:{namespace}/*")
        client.set(name, b"\x80\x04 pickled or worse")
    assert cache.get("key", "missing") == "missing"
    assert cache.get_many(["key"]) == {}


def test_clear_leaves_other_namespaces_alone(valkey_url: str, namespace: str) -> None:
    cache.set("key", 1)
    with override_settings(CACHES=caches_at(valkey_url, f"{namespace}:inner")):
        cache.set("key", 2)
    cache.clear()
    assert cache.get("key") is None
    with override_settings(CACHES=caches_at(valkey_url, f"{namespace}:inner")):
        assert cache.get("key") == 2


# --- get_or_set ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3, 100_000], ids=["small", "larger-than-a-wake-up"])
@pytest.mark.parametrize("timeout", [60, None, 0])
def test_one_of_forty_threads_in_two_processes_computes(size: int, timeout: int | None) -> None:
    gate = Gate()
    gate.close()

    def compute() -> str:
        gate.hold()
        return "x" * size

    with threads(40) as submit:
        calls = [
            submit(lambda a: caches[a].get_or_set("key", compute, timeout), a)
            for a in ("default", "other") * 20
        ]
        joined(guard_of("default"), 20)
        joined(guard_of("other"), 20)
        gate.open()
        assert {call.result() for call in calls} == {"x" * size}
    # With a lifetime of 0, nothing stays for waiters of other processes.
    assert gate.entered == 1 if timeout != 0 else gate.entered <= 2
    assert cache.get("key") == (None if timeout == 0 else "x" * size)


def test_the_default_runs_in_its_callers_thread() -> None:
    import threading

    assert cache.get_or_set("key", threading.get_ident) == threading.get_ident()


def test_a_default_may_call_the_cache_and_even_ask_for_its_own_key() -> None:
    assert cache.get_or_set("outer", lambda: cache.get_or_set("inner", lambda: 1) + 1) == 2
    assert cache.get_or_set("self", lambda: cache.get("self", 5)) == 5


def test_an_error_goes_to_the_waiters_and_the_next_caller_computes() -> None:
    gate = Gate()
    gate.close()

    def compute() -> int:
        gate.hold()
        raise LookupError("no such product")

    with override_settings(CACHES=_with_policy(error_ttl=0.0)), threads(5) as submit:
        calls = [submit(cache.get_or_set, "key", compute) for _ in range(5)]
        joined(guard_of(), 5)
        gate.open()
        errors = [call.exception() for call in calls]
        assert [(type(error), str(error)) for error in errors] == [(LookupError, "no such product")] * 5
        assert gate.entered == 1
        assert submit(cache.get_or_set, "key", lambda: 1).result() == 1


def _with_policy(**policy: Any) -> dict[str, Any]:
    from django.conf import settings

    given = settings.CACHES["default"]
    return caches_at(given["LOCATION"], given["OPTIONS"]["namespace"], **policy)


CHANGES = {
    "delete": lambda: caches["other"].delete("key"),
    "delete_many": lambda: caches["other"].delete_many(["other", "key"]),
    "clear": lambda: caches["other"].clear(),
    "set": lambda: caches["other"].set("key", "newer"),
    "set_many": lambda: caches["other"].set_many({"key": "newer"}),
    "add": lambda: caches["other"].add("key", "newer"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_computed_before_a_change_is_not_served_after_it(change: str) -> None:
    gate = Gate()
    gate.close()

    def compute() -> str:
        gate.hold()
        return "older"

    with threads(2) as submit:
        leader = submit(cache.get_or_set, "key", compute)
        until(lambda: gate.entered)
        CHANGES[change]()
        gate.open()
        assert leader.result() == "older"
        newest = "newer" if change in ("set", "set_many", "add") else None
        assert [caches[alias].get("key") for alias in ("default", "other")] == [newest] * 2
        later = submit(lambda: caches["other"].get_or_set("key", lambda: "computed later"))
        assert later.result() == (newest or "computed later")


def test_a_deletion_right_after_a_flight_is_seen_by_the_next_get_or_set() -> None:
    assert cache.get_or_set("key", lambda: 1) == 1
    caches["other"].delete("key")
    assert cache.get_or_set("key", lambda: 2) == 2


def test_a_default_whose_value_cannot_be_stored_is_served_and_the_log_names_its_type_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Cart:
        pass

    for _ in range(2):
        assert isinstance(cache.get_or_set("cart", Cart), Cart)
    (told,) = [record for record in caplog.records if "Cart" in record.message]
    assert told.levelname == "ERROR"
    assert f"(from {__name__}.{Cart.__qualname__}())" in told.message
    assert cache.get("cart") is None


def test_what_took_longer_than_a_lease_lives_is_stored_as_django_stores_it(
    namespace: str, valkey_url: str
) -> None:
    policy = {"compute_timeout": 0.001, "wait_timeout": 0.001}
    with override_settings(CACHES=_with_policy(**policy)):
        assert cache.get("template.cache.x") is None
        with redis.Redis.from_url(valkey_url) as client:
            until(lambda: not list(client.scan_iter(f"django:{namespace}!*")))
        cache.set("template.cache.x", "value")
        assert cache.get("template.cache.x") == "value"


async def test_names_of_flights_hide_the_key(namespace: str, valkey_url: str) -> None:
    names = []

    async def compute() -> int:
        async with redis.asyncio.Redis.from_url(valkey_url) as client:
            names.extend([name async for name in client.scan_iter(f"*{namespace}:*")])
        return 1

    await cache.aget_or_set("session-of-ann", compute)
    assert names
    assert not [name for name in names if b"ann" in name]


# --- pages and fragments ---------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["/page/1", "/fragment"])
def test_a_herd_of_requests_is_one_computation(url: str) -> None:
    from tests.integrations.django.shop.urls import gate

    gate.close()
    with threads(20) as submit:
        calls = [submit(lambda: Client().get(url)) for _ in range(20)]
        joined(guard_of(), 20)
        gate.open()
        answers = {call.result().content for call in calls}
    assert len(answers) == gate.entered == 1
    assert Client().get(url).content in answers


def test_a_page_is_the_same_when_computed_waited_for_and_found() -> None:
    from tests.integrations.django.shop.urls import gate

    gate.close()
    with threads(2) as submit:
        calls = [submit(lambda: Client().get("/page/2")) for _ in range(2)]
        joined(guard_of(), 2)
        gate.open()
        answers = [*(call.result() for call in calls), Client().get("/page/2")]
    for answer in answers:
        assert answer.status_code == 200
        assert (answer["X-Shop"], answer.cookies["seen"].value, answer["Cache-Control"]) == (
            "open",
            "1",
            "max-age=60",
        )


def test_waiters_of_a_page_that_is_not_stored_go_on_beside_each_other_and_later_ones_do_not_wait() -> None:
    from tests.integrations.django.shop.urls import gate

    gate.close()
    with threads(6) as submit:
        leader = submit(lambda: Client().get("/failing"))
        until(lambda: gate.entered == 1)
        waiters = [submit(lambda: Client().get("/failing")) for _ in range(5)]
        joined(guard_of(), 6)
        gate.open()
        assert leader.result().status_code == 500
        all_of(waiters)
        gate.close()
        later = [submit(lambda: Client().get("/failing")) for _ in range(5)]
        # All of them compute at once: none waits for another.
        until(lambda: gate.entered == 11)
        gate.open()
        assert {call.result().status_code for call in (*waiters, *later)} == {500}


def test_a_head_request_does_not_take_the_page_of_get_away() -> None:
    from tests.integrations.django.shop.urls import gate

    assert Client().head("/page/3").status_code == 200
    assert Client().get("/page/3").content == b"page 3 of 2"
    assert Client().head("/page/3").status_code == Client().get("/page/3").status_code == 200
    assert gate.entered == 2


def test_a_key_that_was_missed_and_then_deleted_can_be_set_by_the_same_caller() -> None:
    deletes = (cache.delete, lambda key: cache.delete_many([key]), lambda _: cache.clear())
    for number, delete in enumerate(deletes):
        key = f"template.cache.{number}"
        assert cache.get(key) is None
        delete(key)
        cache.set(key, "value")
        assert cache.get(key) == "value"


def test_a_flight_that_is_not_ended_by_its_request_goes_to_a_waiter_when_caches_close() -> None:
    assert cache.get("template.cache.x") is None
    with threads(1) as submit:
        waiter = submit(lambda: cache.get("template.cache.x"))
        joined(guard_of(), 2)
        cache.close()
        assert waiter.result() is None


def test_a_session_of_the_database_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.contrib.sessions.backends.cached_db import SessionStore

    stored = SessionStore()
    stored["cart"] = [1, 2]
    stored.save()
    cache.clear()
    gate, load = Gate(), SessionStore._get_session_from_db
    gate.close()

    def slowly(self: Any) -> Any:
        gate.hold()
        return load(self)

    monkeypatch.setattr(SessionStore, "_get_session_from_db", slowly)
    with threads(10) as submit:
        calls = [submit(lambda: SessionStore(stored.session_key)["cart"]) for _ in range(10)]
        joined(guard_of(), 10)
        gate.open()
        assert [call.result() for call in calls] == [[1, 2]] * 10
    assert gate.entered == 1


# --- async -----------------------------------------------------------------------------------------------


async def test_one_of_forty_tasks_computes() -> None:
    entered = 0
    opened = asyncio.Event()

    async def compute() -> dict[str, int]:
        nonlocal entered
        entered += 1
        await opened.wait()
        return {"n": entered}

    calls = [
        asyncio.create_task(caches[alias].aget_or_set("key", compute)) for alias in ("default", "other") * 20
    ]
    for alias in ("default", "other"):
        await asyncio.to_thread(joined, guard_of(alias), 20)
    opened.set()
    assert await asyncio.gather(*calls) == [{"n": 1}] * 40
    assert (entered, await cache.aget("key")) == (1, {"n": 1})


async def test_tasks_that_share_one_object_of_the_cache_wait_for_each_other() -> None:
    shared = caches["default"]
    assert await shared.aget("template.cache.x") is None
    assert await shared.aget("template.cache.x") is None, "the same task would wait for itself"
    waiter = asyncio.create_task(shared.aget("template.cache.x"))
    await asyncio.to_thread(joined, guard_of(), 2)
    await shared.aset("template.cache.x", "value")
    assert await waiter == "value"


async def test_a_cancelled_waiter_leaves_and_a_cancelled_leader_hands_over() -> None:
    first = Cache(*_given())
    leader = asyncio.create_task(first.aget("template.cache.x"))
    assert await leader is None
    waiters = [asyncio.create_task(Cache(*_given()).aget("template.cache.x")) for _ in range(3)]
    await asyncio.to_thread(joined, first.guard, 4)
    waiters[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiters[0]
    await first.aset("template.cache.x", "value")
    assert await asyncio.gather(*waiters[1:]) == ["value"] * 2


def _given() -> tuple[Any, dict[str, Any]]:
    from django.conf import settings

    given = dict(settings.CACHES["default"])
    return given["LOCATION"], given


# --- faults ----------------------------------------------------------------------------------------------


def test_without_redis_reads_miss_flights_stay_single_and_a_deletion_is_an_error(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    gate = Gate()
    gate.close()

    def compute() -> int:
        gate.hold()
        return 7

    with override_settings(CACHES=caches_at(own_valkey.url, namespace)):
        cache.set("key", 1)
        own_valkey.kill()
        assert cache.get("key", "missing") == "missing"
        with threads(5) as submit:
            calls = [submit(cache.get_or_set, "fresh", compute) for _ in range(5)]
            joined(guard_of(), 5)
            gate.open()
            assert [call.result() for call in calls] == [7] * 5
        assert gate.entered == 1
        with pytest.raises(redis.exceptions.ConnectionError):
            cache.delete("key")


def test_a_request_of_another_method_asks_no_cache() -> None:
    from tests.integrations.django.shop.urls import page

    assert page(RequestFactory().post("/page/1"), 1).status_code == 200
    assert page(RequestFactory().post("/page/1"), 1).content == b"page 1 of 2"
