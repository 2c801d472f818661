"""What leases get for bad input: an error that names the field, the rule and what to write instead."""

from __future__ import annotations

import functools
import inspect
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from stampede_guard import StampedeGuard
from stampede_guard.errors import Misuse, PolicyError, StoreUnavailable, UrlError
from stampede_guard.leases import MemoryLeases, PostgresLeases, RedisLeases
from stampede_guard.leases.kinds import PostgresUrlOptions

ROOT = Path(__file__).resolve().parents[2]
NAN, INF = float("nan"), float("inf")


async def takes_nothing() -> None: ...


async def takes_a_lease(lease: Any) -> None: ...


async def yielding(lease: Any) -> Any:
    yield lease


def yielding_plainly() -> Any:
    yield


class Called:
    def __call__(self, lease: Any) -> None: ...


class Made:
    def __init__(self, lease: Any) -> None: ...


TIMES = [
    ("lease_ttl", "60"),
    ("lease_ttl", NAN),
    ("lease_ttl", INF),
    ("lease_ttl", -1),
    ("lease_ttl", True),
    ("grace", NAN),
    ("grace", 1_000),
    ("renew_every", 1_000),
    ("renew_every", "5"),
    ("request_timeout", 0),
    ("poll_every", -1),
    ("poll_every", INF),
]
WAITS = [
    ("wait", "x"),
    ("wait", None),
    ("wait", NAN),
    ("wait", -1),
    ("at_least_for", INF),
    ("at_least_for", -1),
]


@pytest.mark.parametrize(
    ("made", "field", "value"),
    [
        *(("hold", *given) for given in TIMES + WAITS),
        *(("election", *given) for given in TIMES),
        *(("run_exclusive", *given) for given in TIMES + WAITS),
        *(("warmer", *given) for given in TIMES),
        ("run_exclusive", "overlap", "allow"),
        ("run_exclusive", "overlap", None),
        ("election", "on_elected", 5),
        ("election", "on_elected", "lead"),
        ("election", "on_elected", Called),
        ("election", "on_elected", Made),
        ("election", "on_elected", takes_nothing),
        ("election", "on_elected", yielding),
        ("election", "on_lost", takes_nothing),
        ("warmer", "most", 0),
        ("warmer", "most", "100"),
        ("warmer", "most", 1.5),
        ("warmer", "most", True),
        ("warmer", "at_once", INF),
        ("warmer", "every", 0),
        ("warmer", "every", NAN),
        ("warmer", "every", "1"),
        ("warmer", "every", INF),
        ("warmer", "ahead", -1),
        ("warmer", "ahead", "x"),
        ("warmer", "least", NAN),
        ("warmer", "least", -1),
        ("warmer", "least", "2"),
    ],
)
def test_what_cannot_be_is_refused_by_name(made: str, field: str, value: object) -> None:
    leases, given = MemoryLeases(), {field: value}
    guard = StampedeGuard.from_url("memory://")
    make: dict[str, Callable[[], object]] = {
        "hold": lambda: leases.hold("x", **given),  # type: ignore[arg-type]
        "election": lambda: leases.election("x", **given),  # type: ignore[arg-type]
        "run_exclusive": lambda: leases.run_exclusive("x", **given),  # type: ignore[arg-type]
        "warmer": lambda: leases.warmer(guard, **given),
    }
    with pytest.raises(PolicyError) as refused:
        make[made]()
    assert refused.value.field == field
    assert refused.value.rule


@pytest.mark.parametrize("name", ["", None, 5, "a\0b", "x" * 201, takes_nothing])
def test_what_is_no_name_is_refused_wherever_it_is_written(name: Any) -> None:
    leases = MemoryLeases()
    for make in (leases.hold, leases.election, leases.run_exclusive, leases.full):
        with pytest.raises(Misuse, match=r"write 1 to 200 printable characters"):
            make(name)


def test_what_may_be_is_taken() -> None:
    leases = MemoryLeases()
    leases.hold("x", wait=INF)
    for function in (None, takes_a_lease, Called(), lambda lease: None, [].append, functools.partial(print)):
        leases.election("x", on_elected=function, on_lost=function)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (yielding, "run_exclusive decorates functions"),
        (yielding_plainly, "run_exclusive decorates functions"),
        (Called(), "not a Called"),
        (Called, "not a type"),
        (None, "not a NoneType"),
        (functools.partial(print), "not a partial"),
        (staticmethod(takes_nothing), "write @staticmethod above it"),
        (classmethod(takes_nothing), "write @classmethod above it"),
    ],
)
def test_what_would_not_run_under_its_lease_is_no_exclusive_function(function: Any, told: str) -> None:
    with pytest.raises(Misuse) as refused:
        MemoryLeases().run_exclusive("x")(function)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("feature", "given", "meant"),
    [
        ("hold", {"wiat": 5}, "wait"),
        ("hold", {"grce": 5}, "grace"),
        ("election", {"on_electd": print}, "on_elected"),
        ("run_exclusive", {"overlp": "skip"}, "overlap"),
        ("run_exclusive", {"lease_tl": 5}, "lease_ttl"),
    ],
)
def test_a_wrong_name_is_refused_with_the_nearest_option(
    feature: str, given: dict[str, Any], meant: str
) -> None:
    (name,) = given
    with pytest.raises(Misuse, match=rf"leases\.{feature} has no {name} \(do you mean {meant}\?\); it has"):
        getattr(MemoryLeases(), feature)("import", **given)


def test_a_warmer_has_a_guard_and_options_that_there_are() -> None:
    leases = MemoryLeases()
    with pytest.raises(Misuse, match="warms a StampedeGuard, not a NoneType"):
        leases.warmer(None)
    with pytest.raises(
        Misuse, match=r"leases.warmer has no mots \(do you mean most\?\); it has .*, most, at_once, every"
    ):
        leases.warmer(StampedeGuard.from_url("memory://"), mots=5)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"namespace": ""}, "namespace='' is not allowed"),
        ({"namespace": "shop:eu"}, "namespace='shop:eu' is not allowed"),
        ({"namespace": None}, "namespace=None"),
        ({"namespace": 5}, "namespace=5"),
        ({"namespace": "a b"}, "write 1 to 64 letters"),
        ({"label": 5}, "label=5 is not allowed: write a text"),
        ({"label": "a\0b"}, "label='a\\x00b' is not allowed: write a text"),
        ({"label": "half \ud83d"}, "label='half \\ud83d' is not allowed: write a text"),
        ({"hooks": 5}, "hooks=5 is not allowed: write a tuple of functions"),
        ({"hooks": [5]}, "not a int"),
        ({"clock": 5}, "clock=5: write a function"),
        ({"rows": 5}, "rows=5: write the `rows`"),
        (
            {"naemspace": "x"},
            "MemoryLeases has no naemspace (do you mean namespace?); it has rows, clock, namespace",
        ),
    ],
)
def test_leases_that_cannot_work_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(Misuse) as refused:
        MemoryLeases(**given)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "url", "told"),
    [
        (PostgresLeases, "redis://u:hunter2@h/0", "write RedisLeases.from_url"),
        (PostgresLeases, "rediss+cluster://h", "write RedisLeases.from_url"),
        (PostgresLeases, "memory://", "write MemoryLeases()"),
        (PostgresLeases, "mysql://u:hunter2@h/d", "postgresql://user:password@host:port/database"),
        (PostgresLeases, "localhost", "postgresql://"),
        (PostgresLeases, "", "postgresql://"),
        (PostgresLeases, None, "postgresql://"),
        (PostgresLeases, 5, "postgresql://"),
        (PostgresLeases, "postgresql://u:hunter2@h:x/d", "must be 1 to 65535"),
        (PostgresLeases, "postgresql://u:hunter2@h:99999/d", "must be 1 to 65535"),
        (PostgresLeases, "postgresql://u:1?hunter2@h:5432/d", "in a password, write"),
        (PostgresLeases, "postgresql://u:1#hunter2@h:5432/d", "in a password, write"),
        (PostgresLeases, "postgresql://u:p@hunter2@h:5432/d", "in a password, write"),
        (PostgresLeases, "postgresql://u:hunter2@h/d?sslmode", "in a password, write"),
        (RedisLeases, "postgresql://u:hunter2@h/d", "write PostgresLeases.from_url"),
        (RedisLeases, "postgresql+asyncpg://u:hunter2@h/d", "write PostgresLeases.from_url"),
        (RedisLeases, "mysql://u:hunter2@h/d", "unknown scheme 'mysql'"),
        (RedisLeases, "redis://h:x/0", "a port of 1 to 65535"),
        (RedisLeases, "redis://h/x", "must be a number"),
        (RedisLeases, "", "has no scheme"),
        (RedisLeases, None, "not a NoneType"),
        (RedisLeases, b"redis://h/0", "not a bytes"),
    ],
)
def test_a_url_of_the_wrong_kind_is_refused_without_its_password(kind: Any, url: Any, told: str) -> None:
    with pytest.raises(UrlError) as refused:
        kind.from_url(url)
    assert told in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("url", ["postgresql://u:1?hunter2@h:5432/d", "postgresql://u:hunter2@h:x/d"])
def test_a_url_for_listening_is_checked_in_the_same_way(url: str) -> None:
    with pytest.raises(UrlError) as refused:
        PostgresLeases.from_url("postgresql://u@h/d", listen=url)
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h/d?user=me@server&password=p%3Fq",
        "postgresql:///d?host=/var/run/postgresql",
        "postgresql://u:p%40%3F%23@h:5432/d?sslmode=require",
        "postgresql+asyncpg://u:p@h1:5432,h2:5433/d",
        "postgresql://u:p@h/d#note",
    ],
)
def test_a_url_of_postgresql_is_taken(url: str) -> None:
    PostgresLeases.from_url(url, listen=url)


async def test_an_error_on_the_way_to_the_database_never_shows_what_it_was_given() -> None:
    async def connect() -> Any:
        raise ValueError("bad query field: 'hunter2@h:5432/d'")

    async with PostgresLeases.from_connect(connect) as leases:
        with pytest.raises(StoreUnavailable, match=r"ValueError, raised in test_refused\.py:\d+") as refused:
            await leases.show("n")
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))


def test_type_checkers_know_every_option_of_the_driver() -> None:
    taken = inspect.signature(asyncpg.connect).parameters.keys() - {"dsn", "loop", "statement_cache_size"}
    assert taken <= PostgresUrlOptions.__annotations__.keys()


def test_leases_of_this_process_have_no_url_of_redis() -> None:
    with pytest.raises(Misuse, match="MemoryLeases"):
        RedisLeases.from_url("memory://")


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        (
            PostgresLeases,
            {"naemspace": "x"},
            "has no naemspace (do you mean namespace?); it has namespace, label",
        ),
        (PostgresLeases, {"eviction": "warn"}, "has no eviction; it has"),
        (PostgresLeases, {"statement_cache_size": 100}, "has no statement_cache_size"),
        (PostgresLeases, {"schema": "a;b"}, "schema='a;b' is not allowed"),
        (PostgresLeases, {"schema": 5}, "schema=5 is not allowed"),
        (PostgresLeases, {"connections": 0}, "connections=0 is not allowed: write a whole number, 1 or more"),
        (PostgresLeases, {"connections": "4"}, "connections='4'"),
        (PostgresLeases, {"listen": "yes"}, "listen='yes' is not allowed: write True, False, or a URL"),
        (PostgresLeases, {"listen": None}, "listen=None"),
        (PostgresLeases, {"namespace": "a b"}, "namespace='a b'"),
        (
            RedisLeases,
            {"naemspace": "x"},
            "RedisLeases has no naemspace (do you mean namespace?)",
        ),
        (RedisLeases, {"schema": "x"}, "RedisLeases has no schema"),
        (RedisLeases, {"eviction": "maybe"}, "write 'refuse' or 'warn'"),
        (RedisLeases, {"restart": True}, "write 'withhold' or 'trust'"),
        (RedisLeases, {"longest_lease": -1}, "longest_lease=-1"),
        (RedisLeases, {"namespace": 5}, "namespace=5"),
    ],
)
def test_an_option_that_is_none_or_cannot_be_is_refused(kind: Any, given: dict[str, Any], told: str) -> None:
    url = "postgresql://h/d" if kind is PostgresLeases else "redis://h/0"
    with pytest.raises(Misuse) as refused:
        kind.from_url(url, **given)
    assert told in str(refused.value)


def test_what_the_driver_takes_may_be_given() -> None:
    PostgresLeases.from_url("postgresql://a:1,b:2/d", ssl="require", server_settings={"a": "b"}, listen=False)
    PostgresLeases.from_url("postgresql+asyncpg://h/d", listen="postgresql://direct/d", connections=2)
    RedisLeases.from_url("redis://h/0", longest_lease=60, restart="trust", eviction="warn", label="pod")


def test_without_the_driver_it_is_named() -> None:
    program = """
import sys
import traceback
sys.modules["asyncpg"] = None
from stampede_guard.leases import MemoryLeases, PostgresLeases
MemoryLeases()
try:
    PostgresLeases.from_url("postgresql://h/d")
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("Misuse ")
    assert "pip install '.[postgres]'" in done.stdout
