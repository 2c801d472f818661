"""SG404: a synchronous client called in `async def`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.reexported import made_elsewhere
from stampede_guard.audit.fixes.blocking import gives_way
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.programs import runs_alone
from stampede_guard.audit.source.words import path

_SYNC = re.compile(
    r"^(?:redis\.(?:client\.|cluster\.|sentinel\.)?(?:Strict)?(?:Redis|RedisCluster|from_url|Redis\.from_url)|"
    r"valkey\.(?:Valkey|from_url)|pymemcache\.\S*Client|memcache\.Client|pylibmc\.Client|"
    r"django_redis\.get_redis_connection)\(\)$|^redis\.(?:client\.)?Redis$"
)
# `from shop.stores import redis_client`: the client's name, or that of its file, says what it is.
_FROM_THE_PROJECT = re.compile(
    rb"import[^\n]*(?:redis|cache|memcache|valkey)|from [\w.]*(?:redis|cache)", re.IGNORECASE
)
_CALLS = re.compile(
    r"^(?:requests\.(?:get|post|put|delete|patch|head|request)|urllib\.request\.urlopen|time\.sleep)$"
)
_QUICK = frozenset(("pipeline", "register_script", "lock", "close", "pubsub", "from_url"))


def check(module: Module) -> Iterator[Violation]:
    for function in module.functions:
        if not function.is_async or runs_alone(module, function):
            continue
        found = [
            (call, what)
            for call in function.calls
            if not isinstance(module.parents.get(call), ast.Await)
            and (what := _blocks(module, call, function))
        ]
        if not found:
            continue
        (first, what), *more = found
        lines = ", ".join(str(call.lineno) for call, _what in more)
        yield Violation(
            node=first,
            message=f"{what} blocks the event loop: every request of this worker waits for it"
            + (f" (also in line {lines})" if lines else ""),
            function=function.name,
            also=tuple(call for call, _what in more),
        )


def _blocks(module: Module, call: ast.Call, function: Function) -> str:
    name = module.resolve(call.func)
    if _CALLS.match(name):
        return name
    if isinstance(call.func, ast.Attribute) and call.func.attr not in _QUICK:
        made = origin(module, call.func.value, function)
        if _SYNC.match(made) or _SYNC.match(made_elsewhere(module, made)):
            return f"the synchronous client {path(call.func.value)}"
    return ""


RULE = Rule(
    code="SG404",
    name="blocking-client-in-async",
    level="information",
    summary="a synchronous Redis (or other blocking) client called in `async def` (information)",
    confidence="high",
    scope="process",
    hints=(
        (b"async def",),
        (
            b"import redis",
            b"from redis",
            b"django_redis",
            b"requests.",
            b"urllib.request",
            b"memcache",
            b"pylibmc",
            b"valkey",
            b"time.sleep",
            _FROM_THE_PROJECT,
        ),
    ),
    check=check,
    fix=gives_way,
    fixes=("unsafe",),
    documentation=Documentation(
        what="A coroutine calls redis-py's synchronous client, requests, urlopen or time.sleep.",
        why="The event loop stands still for the round trip, and all requests of the worker wait. A slow "
        "miss looks like an outage.",
        example="async def rates():\n    return redis_client.get('rates')   # redis.Redis",
        instead="async def rates():\n    return await redis_client.get('rates')   # redis.asyncio.Redis",
        unless="It runs at start-up, before requests arrive. "
        "Scripts, management commands, tasks of a queue, and code that only `__main__` starts are left out.",
        sure="High, and information: it fails no build, and each function is reported once. "
        "The client's constructor is in the file, or in the project's file that it is imported from.",
        fix="Unsafe: `time.sleep(1)` becomes `await asyncio.sleep(1)`. A command of redis-py or "
        "valkey-py, or a call of requests, moves to a thread (`await asyncio.to_thread(client.get, "
        "key)`), and other coroutines run during the call. None for other clients, because threads "
        "may not share them. None for `urlopen` and streams, whose body is read later, and none "
        "inside a lambda or a generator expression.",
    ),
)
