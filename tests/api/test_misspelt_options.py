"""Every public callable refuses a misspelt option, and a value of the wrong type, and names the nearest option.

The callables are found by introspection. A new one is covered without a change here, or this test fails.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any, Unpack, get_args, get_origin

import asyncpg
import pytest
from django.core.exceptions import ImproperlyConfigured
from redis.asyncio import Redis, RedisCluster, Sentinel

import stampede_guard
from scripts.api_snapshot import SNAPSHOT
from stampede_guard import (
    CacheRoute,
    Limits,
    Misuse,
    Policy,
    StampedeError,
    StampedeGuard,
    StampedeMiddleware,
)
from stampede_guard.api.sync import SyncGuard
from stampede_guard.integrations.django import Cache, InvalidatingQuerySet
from stampede_guard.integrations.flask import Stampede
from stampede_guard.integrations.rq import DrainingWorker
from stampede_guard.jobs import Jobs
from stampede_guard.jobs.schedules.schedule import Every
from stampede_guard.leases import Leases, MemoryLeases
from stampede_guard.stores.memory import MemoryStore

GIVEN = {Policy, Limits, CacheRoute}
"""Dataclasses that users make. The library makes all others."""
SIGNATURES_OF_OTHERS = {Cache, DrainingWorker, InvalidatingQuerySet}
"""Classes whose methods have the names that Django and RQ give them. What they do not know is for these to refuse."""
LIBRARY_CALLS = {
    "CacheRoute.matches",
    "Election",
    "Jobs.carry",
    "Lease",
    "OpenTelemetryHook.traceparent",
    "StampedeGuard.entry",
    "StampedeGuard.register",
    "StampedeGuard.register_all",
    "StampedeGuard.serve_entry",
    "SyncGuard",
    "StampedePlugin.on_app_init",
    "Warmer.keep",
    "Outbox.clean",
    "Outbox.delete",
    "Outbox.rings",
    "Outbox.rings_no_more",
    "Outbox.settle",
    "Outbox.write",
    "Previous",
    "Run",
    "Warmer",
    "FaultyStore.answer",
    "FaultyStore.open_session",
    "Outbox.claim",
    *(f"MemoryStore.{name}" for name in (
        "change", "look", "open_session", "subscribe", "switch", "switches", "tell_watchers", "unsubscribe", "watch"
    )),
    "RedisStore.open_session", "ClusterStore", "ClusterStore.connect", "ClusterStore.open_session",
    "SentinelStore", "SentinelStore.open_session",
}  # fmt: skip
"""What only the library calls, also of the classes that users make.

`Warmer.keep` passes all names on to a function of the application.
"""


class Guards:
    """A guard of a test: `herd` and its kin call its function."""

    guard = StampedeGuard.from_url("memory://", namespace="options")


@Guards.guard.locked_cache(ttl=60)
async def quality(project: int = 7) -> int:
    return project


async def compute() -> int:
    return 7


async def products(ids: list[int]) -> dict[int, int]:
    return dict.fromkeys(ids, 7)


FILLERS: dict[str, Any] = {
    "compute": compute, "app": None, "seconds": 300, "expression": "0 3 * * *", "url": "memory://",
    "name": "import", "key": "report:7", "guard": Guards.guard, "client": MemoryStore(), "by": "alice", "token": 1,
    "PostgresLeases.from_url.url": "postgresql://nobody@localhost/none",
    "RedisLeases.from_url.url": "redis://localhost:1/0",
    "RedisStore.client": Redis(), "RedisStore.from_url.url": "redis://localhost:1/0",
    "ClusterStore.from_client.client": RedisCluster("localhost", 1),
    "SentinelStore.from_client.client": Sentinel([("localhost", 1)]).master_for("main"),
    "cluster_from_url.url": "redis+cluster://localhost:1",
    "sentinel_from_url.url": "redis+sentinel://localhost:1/main", "deadline_from.url": "redis://localhost:1/0",
    "connect": compute, "RedisLeases.from_client.client": Redis(),
    "open_backend": lambda: None, "leases": MemoryLeases(), "fn": quality, "function": quality, "target": quality,
    "schedule": Every.of(300), "functions": {"sync": quality}, "pattern": "/reports/*", "rows": None, "ttl": 60,
    "StampedeGuard.switch_mode.function": "shop.quality", "mode": "on",
    "sessions": None, "outbox": MemoryStore(), "engine": MemoryStore(), "jobs": Jobs(MemoryLeases()), "value": 7,
}  # fmt: skip
"""Something for each parameter that must be given."""
ANYTHING = {"type", "pickle", "default"}
"""Options that any value may be given to."""


NO_CALLS = (
    "stampede_guard.api.keywords.",
    "stampede_guard.http.requests.settings.",
    "stampede_guard.integrations.outboxes.",
)
"""Modules whose names are for type checkers, or which two integrations share."""
NUMBERS = itertools.count()
DRIVERS = set(inspect.signature(asyncpg.connect).parameters)
"""Options that are passed on to asyncpg."""
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Wrong:
    """No option takes it, except one that takes anything."""


@dataclasses.dataclass(frozen=True)
class Public:
    name: str
    call: Callable[..., Any]
    options: tuple[str, ...]
    """Those that are given by name only. None for `guard.sync`, which passes them on."""
    names: tuple[str, ...]
    """These, and those that may also be given by their place."""

    def __str__(self) -> str:
        return self.name


def public_modules() -> Iterator[Any]:
    """The package, its rooms that users import, and each integration and hook."""
    yield stampede_guard
    for room in ("leases", "jobs", "stores", "testing"):
        yield importlib.import_module(f"stampede_guard.{room}")
    for room in ("integrations", "observe"):
        package = importlib.import_module(f"stampede_guard.{room}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if module.name == "stampede_guard.integrations.outboxes":
                continue  # what the outboxes of two integrations share
            yield importlib.import_module(module.name)


def options_of(function: Any) -> tuple[str, ...]:
    """Keyword options by name: not those of a function that takes any name."""
    found: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            found.append(parameter.name)
        elif parameter.kind is parameter.VAR_KEYWORD:
            whole = inspect.unwrap(function)
            packed = eval(str(parameter.annotation), vars(inspect.getmodule(whole)))
            if get_origin(packed) is Unpack:
                found += get_args(packed)[0].__annotations__
    return tuple(found)


def names_of(function: Any) -> tuple[str, ...]:
    """What callers may name: the options, and the parameters that have a name. An application gives `_app`."""
    parameters = inspect.signature(function).parameters.values()
    named = (each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD)
    return (
        *(name for name in named if name not in ("self", "cls") and not name.startswith("_")),
        *options_of(function),
    )


def is_ours(function: Any) -> bool:
    return str(getattr(inspect.unwrap(function), "__module__", "")).startswith("stampede_guard.")


def public_callables(seen: set[Any]) -> Iterator[Public]:
    for module in public_modules():
        for name in module.__all__:
            given = getattr(module, name)
            if inspect.isclass(given) and not issubclass(given, BaseException):
                yield from of_class(given, seen)
            elif inspect.isfunction(given) and is_ours(given) and given not in seen and names_of(given):
                seen.add(given)
                yield Public(name, given, options_of(given), names_of(given))
    yield from of_class(SyncGuard, seen)


def is_made(given: Any) -> bool:
    """Whether users write the class themselves, or the library makes all its objects."""
    return getattr(given, "_is_protocol", False) or (dataclasses.is_dataclass(given) and given not in GIVEN)


def of_class(given: Any, seen: set[Any]) -> Iterator[Public]:
    if is_made(given):
        return
    for name, member in inspect.getmembers(given):
        function = getattr(member, "__func__", member)
        if not inspect.isfunction(function) or (name.startswith("_") and name != "__init__"):
            continue
        if not is_ours(function) or function in seen or not names_of(function):
            continue
        seen.add(function)
        title = given.__name__ if name == "__init__" else f"{given.__name__}.{name}"
        if title in LIBRARY_CALLS or given in SIGNATURES_OF_OTHERS:
            continue
        call: Any = (
            given if name == "__init__" else member if inspect.ismethod(member) else bound(given, name)
        )
        options = () if given is SyncGuard else options_of(function)
        yield Public(title, call, options, names_of(function))


def bound(given: Any, name: str) -> Any:
    """The method of an object, which users have."""
    if given is StampedeGuard:
        return getattr(Guards.guard, name)
    if given is SyncGuard:
        return getattr(Guards.guard.sync, name)
    if given is StampedeMiddleware:
        return getattr(StampedeMiddleware(None, guard=Guards.guard), name)
    if issubclass(given, Leases):
        return getattr(MemoryLeases(), name)
    made = {Policy: Policy, Jobs: lambda: Jobs(MemoryLeases()), Stampede: Stampede}.get(given)
    # The options are checked before the method reads anything of its object.
    return getattr(object.__new__(given) if made is None else made(), name)


SEEN: set[Any] = set()
"""The functions of all that was looked at, also of what only the library calls."""
CALLABLES = list(public_callables(SEEN))


def filler(public: Public, name: str) -> Any:
    """Something for a parameter that must be given."""
    return FILLERS.get(f"{public}.{name}", FILLERS.get(name, "import"))


async def called(public: Public, /, *, without: str = "", **options: Any) -> None:
    """Call it with these options, and with something for each parameter that must be given, but for this one."""
    filled: dict[str, Any] = {}
    for parameter in inspect.signature(public.call).parameters.values():
        needed = parameter.default is parameter.empty and parameter.kind in NAMED
        if needed and parameter.name not in options and parameter.name != without:
            filled[parameter.name] = filler(public, parameter.name)
    if public.name.endswith(("locked_cache", "cached_many", "cached_view")):
        filled |= {"name": f"function{next(NUMBERS)}"} if "name" not in options else {}
    if public.name == "Jobs.table" and not {"connect", "rows"} & options.keys():
        filled["connect"] = compute
    parameters = inspect.signature(public.call).parameters.values()
    first = [filler(public, each.name) for each in parameters if each.kind is each.POSITIONAL_ONLY]
    if public.name.startswith("SyncGuard."):
        await asyncio.to_thread(public.call, *first, **filled, **options)
        return
    made = public.call(*first, **filled, **options)
    if public.name in ("Jobs.cron", "Jobs.every"):
        made(lambda: None)
    elif public.name.endswith(("locked_cache", "cached_many", "cached_view")):
        made(products if public.name.endswith("cached_many") else quality)
    if inspect.isawaitable(made):
        await made


def misspelt(name: str) -> Iterator[str]:
    yield name + name[-1]
    yield name[0] + name
    if len(name) > 3:
        yield name[:-1]
        yield name[0] + name[2] + name[1] + name[3:]


def test_the_callables_that_users_know_are_among_those_found() -> None:
    found = {str(public) for public in CALLABLES}
    assert found >= {
        "StampedeGuard", "StampedeGuard.from_url", "StampedeGuard.single", "StampedeGuard.get_or_compute",
        "StampedeMiddleware", "CacheRoute", "Policy", "Limits", "cache_control", "locked_cache", "cached_many",
        "Leases.hold", "Leases.election", "Jobs", "Jobs.cron", "Jobs.every", "herd", "assert_single_flight",
        "health_endpoint", "invalidates", "PrometheusHook", "LogHook",
    }  # fmt: skip


def test_every_callable_of_the_published_list_is_among_those_found() -> None:
    """`docs/api.txt` is made from the source, and this file's list by introspection."""
    lines = SNAPSHOT.read_text("utf-8").splitlines()
    missed = [path for path in (line.partition("(")[0] for line in lines if "(" in line) if is_missed(path)]
    assert not missed


def is_missed(path: str) -> bool:
    if path.startswith(NO_CALLS):
        return False
    owner, found = None, pkgutil.resolve_name(path.partition(":")[0])
    if ":" not in path and inspect.isclass(holder := pkgutil.resolve_name(path.rpartition(".")[0])):
        owner = holder
    made = found if inspect.isclass(found) else owner
    if made is not None and (
        issubclass(made, BaseException) or made in SIGNATURES_OF_OTHERS or is_made(made)
    ):
        return False
    function = found.__init__ if inspect.isclass(found) else getattr(found, "__func__", found)
    is_one = inspect.isfunction(function) and is_ours(function) and bool(names_of(function))
    return is_one and function not in SEEN


@pytest.mark.parametrize("public", CALLABLES, ids=str)
async def test_a_misspelt_option_is_refused_with_the_nearest_one(public: Public) -> None:
    for option in public.names:
        for wrong in set(misspelt(option)) - set(public.names):
            with pytest.raises(Misuse) as refused:
                await called(public, **{wrong: Wrong()})
            assert wrong in str(refused.value), (option, wrong)
            assert f"do you mean {option}?" in str(refused.value), (option, wrong)


@pytest.mark.parametrize("public", CALLABLES, ids=str)
async def test_a_misspelt_name_is_refused_also_without_the_right_one(public: Public) -> None:
    """Python's own error says only what is missing."""
    parameters = inspect.signature(public.call).parameters.values()
    for needed in (each.name for each in parameters if each.default is each.empty and each.kind in NAMED):
        for wrong in set(misspelt(needed)) - set(public.names):
            with pytest.raises(Misuse) as refused:
                await called(public, without=needed, **{wrong: filler(public, needed)})
            assert wrong in str(refused.value), (needed, wrong)
            assert f"do you mean {needed}?" in str(refused.value), (needed, wrong)


@pytest.mark.parametrize("public", CALLABLES, ids=str)
async def test_a_foreign_name_is_refused_with_the_names_that_are_allowed(public: Public) -> None:
    with pytest.raises(Misuse) as refused:
        await called(public, qqqq=Wrong())
    assert "qqqq" in str(refused.value)
    assert any(name in str(refused.value) for name in public.names), str(refused.value)


@pytest.mark.parametrize("public", [each for each in CALLABLES if each.options], ids=str)
async def test_a_value_of_the_wrong_type_is_refused_with_the_name_of_its_option(public: Public) -> None:
    for option in set(public.options) - DRIVERS:
        refused = []
        for wrong in (Wrong(), 5, "?", None, print, [Wrong()]):
            try:
                await called(public, **{option: wrong})
            except StampedeError as error:
                assert isinstance(error, Misuse), (option, wrong)
                refused.append(str(error))
            except AssertionError:
                pass  # the test kit's answer to a value of the right type
            except ImproperlyConfigured:
                refused.append(
                    option
                )  # Django's decorator passes it to the guard's decorator, which is here, too
        assert option in ANYTHING or any(option in text for text in refused), (option, refused)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: StampedeGuard.from_url("memory://", tll=60),  # type: ignore[call-arg]
            r"has no tll \(do you mean ttl\?\): write policy=Policy\(ttl=\.\.\.\)",
        ),
        (
            lambda: StampedeGuard.from_url("memory://", max_treads=8),  # type: ignore[call-arg]
            r"do you mean max_threads\?\): write limits=Limits\(max_threads=",
        ),
        (
            lambda: StampedeMiddleware(None, ttl=60),  # type: ignore[call-arg]
            r"has no ttl: write routes=\[CacheRoute\('/reports/\*', ttl=",
        ),
        (
            lambda: StampedeMiddleware(None, stale_tll=60),  # type: ignore[call-arg]
            r"do you mean stale_ttl\?\): write routes=\[CacheRoute",
        ),
        (
            lambda: StampedeGuard.from_url("memory://", hooks=print),  # type: ignore[arg-type]
            r"hooks=.*write hooks=\(print,\)",
        ),
    ],
)
def test_an_option_of_another_place_is_refused_with_that_place(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(Misuse, match=said):
        call()
