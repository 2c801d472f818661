"""SG604: `lru_cache` over what a database or another service says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.accesses import accesses
from stampede_guard.audit.caching.entries.shared import is_server
from stampede_guard.audit.caching.judging.cost import cost
from stampede_guard.audit.prefilter import Hint
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.decorations import decorations
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.programs import is_started_by_hand, runs_alone
from stampede_guard.audit.source.routes import routes
from stampede_guard.audit.source.words import last, path

_LRU = re.compile(r"^functools\.(?:lru_cache|cache)(?:\(\))?$")
_ASKS = re.compile(
    r"\.objects\b|session\.(?:execute|query|scalars?|get)\b|\.query\.|requests\.(?:get|post)$|httpx\.(?:get|post)$"
)
_FETCHES = frozenset("fetchall fetchone fetchmany fetchval fetchrow fetch_all fetch_one fetch_val".split())
_RUNS = frozenset("execute exec fetch scalar scalars".split())
_SELECTS = re.compile(r"\s*(?:select|with)\b", re.IGNORECASE)
_READS = frozenset("get hget hgetall mget get_many smembers lrange".split())
_HINT: Hint = (b"lru_cache", re.compile(rb"@(?:functools\.)?cache\b(?!\.)"), b" cache as ")
_SERVERS = (b"redis", b"Redis", b"REDIS", b"core.cache", b"flask_cach", b"memcache", b"valkey")
_ASKED: Hint = (
    b".objects",
    b"session.",
    b".query",
    b"requests.",
    b"httpx.",
    b".cache_clear",
    b"cache",
    b".execute",
    b".scalar",
    b"fetch",
    *_SERVERS,
)


def check(module: Module) -> Iterator[Violation]:
    for decoration in decorations(module):
        function = decoration.function
        if (
            not _LRU.match(decoration.name)
            or "migration" in module.path
            or runs_alone(module, function)
            or is_started_by_hand(module, function)
        ):
            continue
        cleared = f"{function.name}.cache_clear" in module.source
        asks = any(_ASKS.search(path(call.func)) or _is_query(call, function) for call in function.calls)
        copies = any(_is_read(module, call, function) for call in function.calls)
        stale = (asks or copies) and not cleared
        if not ((asks or cleared) if routes(function.node) else stale or _is_above_a_cache(module, function)):
            continue
        yield Violation(
            node=decoration.node,
            message=f"{decoration.tail} keeps what {function.name}() found until the process ends: this worker does "
            "not see later changes",
            function=function.name,
            cost=cost(function.node),
        )


def _is_query(call: ast.Call, function: Function) -> bool:
    """`connection.execute(text("SELECT ..."))`, `cursor.fetchall()`: whatever the connection is called."""
    if not isinstance(call.func, ast.Attribute):
        return False
    name = call.func.attr
    return name in _FETCHES or (name in _RUNS and bool(call.args) and _selects(call.args[0], function))


def _selects(node: ast.expr, function: Function, depth: int = 3) -> bool:
    """`depth`: names that it follows. `query = query.where(...)` is bound to itself."""
    match node:
        case ast.Constant(value=str(text)) | ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            return _SELECTS.match(text) is not None
        case ast.Call(func=func, args=args):
            # `select(...)`, `text("SELECT ...")`, `select(...).where(...)`, `sql.SQL("SELECT ...").format(...)`
            if last(path(func)) == "select" or any(_selects(one, function, depth) for one in args[:1]):
                return True
            return isinstance(func, ast.Attribute) and _selects(func.value, function, depth)
        case ast.Name(id=name) if depth:
            return any(
                bound == [name] and not isinstance(value, ast.Name) and _selects(value, function, depth - 1)
                for _node, bound, value in function.bindings
            )
        case _:
            return False


def _is_read(module: Module, call: ast.Call, function: Function) -> bool:
    """`redis.get(key)`: other processes change that entry, and this one keeps what it was."""
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in _READS
        and is_server(module, call.func.value, function)
    )


def _is_above_a_cache(module: Module, function: Function) -> bool:
    """The function fills another cache, whose entries expire or are deleted. The memo outlives them."""
    done = {access.what for access in accesses(module, function) if access.sure or access.helper}
    return {"read", "write"} <= done


RULE = Rule(
    code="SG604",
    name="never-expires",
    summary="`lru_cache` over a query, a request or a route: the process never sees later changes",
    confidence="medium",
    scope="process",
    hints=((b"functools",), _HINT, _ASKED),
    check=check,
    documentation=Documentation(
        what=(
            "`functools.lru_cache` or `cache` decorates a function that queries a database or asks another "
            "service, that reads a shared cache or fills another one, or a route that does or whose entries are "
            "cleared."
        ),
        why=(
            "The entry has no lifetime, and `cache_clear()` reaches one process only. The other workers serve the old "
            "answer until they restart."
        ),
        example=("@lru_cache()\ndef template(kind):\n    return Template.objects.get(kind=kind).content"),
        instead=("@locked_cache(ttl=300)\ndef template(kind: str) -> str: ..."),
        unless=(
            "The answer never changes, or the process ends soon. Scripts, commands and tasks are left out."
        ),
        sure=("Medium: the call is known by its name."),
        fix=("No automatic fix: the code does not say how old an answer may be."),
    ),
)
