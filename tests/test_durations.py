"""Every door takes durations as people write them, and inside they are seconds."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from stampede_guard import CacheRoute, Limits, Misuse, Policy, PolicyError, StampedeGuard
from stampede_guard.durations import advice, seconds
from stampede_guard.http.headers import cache_control
from stampede_guard.http.requests.settings import Settings
from stampede_guard.integrations.django.settings import timeout_in_seconds
from stampede_guard.jobs.apscheduler.external import foreign_terms
from stampede_guard.jobs.job import Terms
from stampede_guard.jobs.schedules.schedule import Every
from stampede_guard.leases import Jobs, MemoryLeases
from stampede_guard.leases.client import Leases
from stampede_guard.leases.core.timing import job_timing, leader_timing
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing import FakeClock, herd

IN_SECONDS = [
    field.name
    for kind in (Policy, Limits)
    for field in dataclasses.fields(kind)
    if field.metadata["unit"] == "s"
]


@pytest.fixture
async def guard() -> AsyncIterator[StampedeGuard]:
    async with StampedeGuard.from_url("memory://") as made:
        yield made


# --- the texts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("250ms", 0.25),
        ("30s", 30.0),
        ("10m", 600.0),
        ("2h", 7200.0),
        ("1d", 86_400.0),
        ("1w", 604_800.0),
        ("1h30m", 5400.0),
        ("1w2d3h4m5s6ms", 788_645.006),
        ("1.5h", 5400.0),
        ("1.1h", 3960.0),
        ("0.1s", 0.1),
        ("90m", 5400.0),
        ("1m500ms", 60.5),
        ("0s", 0.0),
        (timedelta(minutes=10), 600.0),
        (timedelta(milliseconds=250), 0.25),
        (timedelta(seconds=-1), -1.0),
    ],
)
def test_a_text_or_a_timedelta_is_its_seconds(given: object, meant: float) -> None:
    found = seconds(given)
    assert (type(found), found) == (float, meant)


@pytest.mark.parametrize("given", [300, 1.5, True, None, float("inf"), b"10m", ["10m"], 7j])
def test_anything_else_stays_as_it_is(given: object) -> None:
    assert seconds(given) is given


NO_DURATION = [
    "", " ", "300", "1.5", "10 m", " 10m", "10m ", "10m\n", "10M", "10min", "5 minutes", "m", "-10m", "+10m", "10m-5s",
    "30m1h", "1h1h", "1h30", ".5h", "1.h", "1.2345s", "1e3s", "1_000s", "\u0661\u0660m", "infs", "nans", "10y", "PT10M",
    "999999999999w", "9" * 13 + "s", "1s" * 40, "1" * 100_000, "1h," "30m", "0x10s",
]  # fmt: skip


@pytest.mark.parametrize("given", NO_DURATION, ids=lambda given: repr(given[:16]))
def test_a_text_that_is_no_duration_is_refused_with_what_to_write(given: str) -> None:
    assert seconds(given) is given
    with pytest.raises(PolicyError) as caught:
        Policy(ttl=given)
    assert caught.value.value is given
    assert "number of seconds between 0.001" in caught.value.rule
    assert (
        'write 300 or "300s"' in caught.value.rule
        or '"10m"' in caught.value.rule
        or "1.5" in caught.value.rule
    )


def test_a_number_without_a_unit_is_told_both_ways_to_write_it() -> None:
    assert advice("300") == '; a text needs a unit: write 300 or "300s"'
    with pytest.raises(PolicyError, match=r"ttl='300' is not allowed: .*; a text needs a unit: write 300 or"):
        Policy(ttl="300")


def test_a_wrong_type_is_told_every_form_that_is_taken() -> None:
    for given in (None, True, b"10m"):
        assert advice(given) == '; or a text such as "10m", or a timedelta'
    assert advice(-1) == advice(float("nan")) == ""


# --- the doors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", IN_SECONDS)
@pytest.mark.parametrize("given", ["2s500ms", timedelta(seconds=2.5)])
def test_every_time_of_a_policy_and_of_a_guard_takes_them(name: str, given: object) -> None:
    kind = Limits if name == "drain_timeout" else Policy
    beside = {"lease_ttl": {}, "takeover_gap": {"lease_ttl": "4s"}, "soft_timeout": {"stale_ttl": "1h"}}
    made = kind(**{name: given, **beside.get(name, {})})  # type: ignore[arg-type]
    assert getattr(made, name) == 2.5
    assert type(getattr(made, name)) is float


@pytest.mark.parametrize("name", IN_SECONDS)
def test_a_timedelta_outside_the_range_is_refused_as_a_number_would_be(name: str) -> None:
    for given in (timedelta(seconds=-1), timedelta(days=4000), "600w"):
        with pytest.raises(PolicyError) as caught:
            (Limits if name == "drain_timeout" else Policy)(**{name: given})  # type: ignore[arg-type]
        assert (caught.value.field, caught.value.value) == (name, given)


def test_what_is_no_time_takes_none() -> None:
    for name in ("early_beta", "sample", "max_passengers"):
        with pytest.raises(PolicyError, match=name):
            Policy(**{name: "1s"})  # type: ignore[arg-type]


def test_equal_times_make_equal_policies() -> None:
    assert Policy(ttl="10m") == Policy(ttl=600) == Policy().replace(ttl=timedelta(minutes=10))
    assert Policy(ttl="10m", stale_ttl="1h").total_ms == 4_200_000


async def test_decorated_functions_take_them(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl="10m", stale_ttl=timedelta(hours=1))
    async def quality(project: int) -> int:
        return project

    @guard.cached_many(ttl="10m", absent_ttl="5s")
    async def products(ids: list[int]) -> dict[int, int]:
        return {id: id for id in ids if id % 2}

    assert await quality(7) == 7
    assert await products([1, 2]) == {1: 1}
    assert await quality(7) == 7
    assert quality.explain(7)


@pytest.mark.parametrize("given", ["10m", timedelta(minutes=10)])
async def test_calls_of_the_guard_take_them(guard: StampedeGuard, given: Any) -> None:
    async def compute() -> int:
        return 7

    assert await guard.get_or_compute("report:7", compute, ttl=given, wait_timeout="5s") == 7
    async with guard.single("report:8", ttl=given) as entry:
        if entry.missing:
            await entry.set(8)
    assert entry.value == 8


@pytest.mark.parametrize("given", ["10", "ten", b"10m"])
async def test_calls_of_the_guard_refuse_what_is_no_duration(guard: StampedeGuard, given: Any) -> None:
    async def compute() -> int:
        raise AssertionError("not called")

    with pytest.raises(PolicyError, match="ttl=") as caught:
        await guard.get_or_compute("report:7", compute, ttl=given)
    assert "number of seconds" in caught.value.rule


@pytest.mark.parametrize("given", ["10m", timedelta(minutes=10), 600])
async def test_a_function_of_the_value_may_return_them(given: Any) -> None:
    clock = FakeClock()
    async with StampedeGuard(MemoryStore(clock=clock)) as guard:
        computed: list[int] = []

        @guard.locked_cache(ttl=lambda value: given)
        async def quality(project: int) -> int:
            computed.append(project)
            return project

        await quality(7)
        clock.advance("9m59s")
        await quality(7)
        assert computed == [7]
        clock.advance(timedelta(seconds=2))
        await quality(7)
        assert computed == [7, 7]


@pytest.mark.parametrize("given", ["0s", timedelta(0), timedelta(seconds=-1), 0, None])
async def test_a_function_of_the_value_that_returns_no_time_stores_nothing(
    guard: StampedeGuard, given: Any
) -> None:
    computed: list[int] = []

    @guard.locked_cache(ttl=lambda value: given)
    async def quality(project: int) -> int:
        computed.append(project)
        return project

    await quality(7)
    await quality(7)
    assert computed == [7, 7]


@pytest.mark.parametrize("given", ["300", "10 min", "secret-token"])
async def test_a_function_of_the_value_that_returns_another_text_is_told_what_to_return(
    guard: StampedeGuard, given: Any
) -> None:
    @guard.locked_cache(ttl=lambda value: given)
    async def quality(project: int) -> int:
        return project

    with pytest.raises(
        Misuse, match=r'the ttl function of .* returned a str: .*: "250ms", "10m", "1h30m"'
    ) as caught:
        await quality(7)
    assert given not in str(caught.value), "it may be data of the value"


def test_the_http_cache_takes_them() -> None:
    route = CacheRoute("/reports/*", ttl="10m", stale_ttl=timedelta(hours=1))
    assert (route.ttl, route.stale_ttl) == (600.0, 3600.0)
    settings = Settings.of(
        {"routes": [route], "keep": "1d", "stale_if_error": "1h", "stream_timeout": "2s500ms"}
    )
    assert (settings.keep, settings.stale_if_error, settings.stream_timeout) == (86_400.0, 3600.0, 2.5)

    class Response:
        headers: dict[str, str] = {}  # noqa: RUF012

    cache_control(max_age="10m", stale_while_revalidate=timedelta(hours=1))(Response)
    assert Response.headers["cache-control"] == "max-age=600, stale-while-revalidate=3600"


@pytest.mark.parametrize(
    "door",
    [
        lambda given: CacheRoute("/reports/*", ttl=given),
        lambda given: CacheRoute("/reports/*", ttl=60, stale_ttl=given),
        lambda given: Settings.of({"keep": given}),
        lambda given: cache_control(max_age=given),
    ],
)
def test_the_http_cache_refuses_what_is_no_duration(door: Callable[[Any], object]) -> None:
    with pytest.raises(Misuse, match=r'number of seconds.*; a text needs a unit: write 60 or "60s"'):
        door("60")
    for given in ("ten", timedelta(seconds=-1), "9999w", None, True):
        with pytest.raises(Misuse, match="number of seconds"):
            door(given)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"TIMEOUT": "10m"}, {"TIMEOUT": 600}),
        ({"TIMEOUT": timedelta(hours=1)}, {"TIMEOUT": 3600}),
        ({"timeout": "250ms"}, {"timeout": 1}),
        ({"TIMEOUT": "300"}, {"TIMEOUT": "300"}),
        ({"TIMEOUT": None}, {"TIMEOUT": None}),
        ({"TIMEOUT": 0.5}, {"TIMEOUT": 0.5}),
        ({}, {}),
    ],
)
def test_the_timeout_of_a_django_cache_takes_them(given: dict[str, Any], meant: dict[str, Any]) -> None:
    assert timeout_in_seconds(given) == meant


def test_a_text_that_django_would_read_as_300_seconds_is_refused() -> None:
    with pytest.raises(
        ImproperlyConfigured, match=r"TIMEOUT='10 minutes' of the cache is not a time; a text is"
    ):
        timeout_in_seconds({"TIMEOUT": "10 minutes"})


async def test_the_test_kit_takes_them(guard: StampedeGuard) -> None:
    @guard.locked_cache(ttl="10m")
    async def quality(project: int) -> int:
        return project

    found = await herd(quality, args=(7,), callers=4, workers=2, timeout="1m")
    assert found.computations == 1
    with pytest.raises(Misuse, match=r'timeout=\'60\' is not allowed: .*write 60 or "60s"'):
        await herd(quality, args=(7,), timeout="60")


@pytest.mark.parametrize(
    "door",
    [
        lambda leases, given: leases.hold("import", given)._timing.lease_ttl,
        lambda leases, given: leases.hold("import", wait=given)._wait,
        lambda leases, given: leases.hold("import", at_least_for=given)._at_least_for,
        lambda leases, given: leases.hold("import", "15m", renew_every=given)._timing.renew_every,
        lambda leases, given: leases.election("leader", lease_ttl=given)._timing.lease_ttl,
        lambda leases, given: leases.run_exclusive("import", wait=given)._wait,
        lambda leases, given: leases.run_exclusive("import", at_least_for=given)._at_least_for,
        lambda leases, given: leases.warmer(StampedeGuard.from_url("memory://"), every=given)._every,
        lambda leases, given: leases.warmer(StampedeGuard.from_url("memory://"), ahead=given)._ahead,
        lambda leases, given: job_timing(given).lease_ttl,
        lambda leases, given: leader_timing("15m", grace=given).grace,
        lambda leases, given: Jobs(leases, drain_timeout=given)._drain_timeout,
        lambda leases, given: Terms(misfire_grace=given).misfire_grace,
        lambda leases, given: Terms(misfire_grace="1h", jitter=given).jitter,
        lambda leases, given: Terms(time_limit=given).time_limit,
        lambda leases, given: Terms(lease_ttl=given).lease_ttl,
        lambda leases, given: foreign_terms({"time_limit": given}).time_limit,
        lambda leases, given: Every(given).seconds,
        lambda leases, given: Every.of(given).seconds,
        lambda leases, given: Every.of(given, anchor=datetime(2026, 1, 1, tzinfo=UTC)).seconds,
    ],
)
def test_leases_and_jobs_take_them(door: Callable[[Leases, Any], object]) -> None:
    for given in ("5m", timedelta(minutes=5), 300):
        assert door(MemoryLeases(), given) == 300.0
    for given in ("300", "5min", b"5m", True, float("nan"), timedelta(seconds=-1), "-5m", ""):
        with pytest.raises(PolicyError):
            door(MemoryLeases(), given)
    with pytest.raises(PolicyError, match=r'; a text needs a unit: write 300 or "300s"'):
        door(MemoryLeases(), "300")
