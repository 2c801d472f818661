"""SG303: a session-level advisory lock on a pooled connection."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Function, Module, inside, owner_class
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.words import last, path, text_of, words

_TAKES = re.compile(r"pg_(?:try_)?advisory_lock(?:_shared)?\b", re.IGNORECASE)
_FREES = re.compile(r"pg_advisory_unlock", re.IGNORECASE)
_DEDICATED = re.compile(
    r"psycopg2?\.(?:AsyncConnection\.|Connection\.)?connect|asyncpg\.connect|NullPool|pg8000"
)
_HELD = re.compile(r"^(?:\w*_)?(?:conn|connection|cur|cursor|c|dbconn|raw|lock_conn\w*|connections\[\])$")
_TAKEN = frozenset("acquire getconn connect raw_connection get_connection connection checkout".split())
_RUNS = frozenset(
    "execute execute_sql fetchval fetch fetchrow fetchone scalar exec_driver_sql raw run query select scalars".split()
)


def check(module: Module) -> Iterator[Violation]:
    dedicated = _DEDICATED.search(module.source) is not None
    for call in module.calls:
        function = module.owners.get(call)
        if function is None or not isinstance(call.func, ast.Attribute) or call.func.attr not in _RUNS:
            continue
        if not _TAKES.search(_sql(module, call, function)) or (
            dedicated and _on_a_connection(call.func.value)
        ):
            continue
        if _kept_on_one_connection(module, call, function):
            continue
        yield Violation(
            node=call,
            message="a session-level advisory lock belongs to the connection: the pool hands "
            "that to others and its "
            "reset frees the lock silently; take pg_advisory_xact_lock, or a connection of its own",
            function=function.name,
        )


def _sql(module: Module, call: ast.Call, function: Function) -> str:
    """The statement's text, also from a local name or a module's constant."""
    parts: list[str] = []
    for argument in call.args[:1]:
        parts.append(text_of(argument))
        for name in ast.walk(argument):
            if isinstance(name, ast.Name):
                parts += [text_of(v) for _n, names, v in function.bindings if name.id in names]
                if name.id in module.values:
                    parts.append(text_of(module.values[name.id]))
    return " ".join(parts)


def _on_a_connection(receiver: ast.expr) -> bool:
    dotted = path(receiver)
    return "session" not in dotted.lower() and words(dotted.rpartition(".")[2])[-1:] != ("db",)


def _kept_on_one_connection(module: Module, call: ast.Call, function: Function) -> bool:
    """Whether one function, or one object, locks and unlocks while it holds one connection."""
    assert isinstance(call.func, ast.Attribute)
    held = _connection(call.func.value, function)
    if "AsyncSession" in origin(module, call.func.value, function):
        return False
    if not _HELD.match(held.rpartition(".")[2]) and not _is_taken(held, function):
        return False
    return any(
        _FREES.search(_sql(module, other, scope))
        and isinstance(other.func, ast.Attribute)
        and _connection(other.func.value, scope) == held
        and (scope is not function or _in_one_block(module, call, other, held))
        for scope in _freeing(module, function, held)
        for other in scope.calls
        if other is not call
    )


def _connection(receiver: ast.expr, function: Function) -> str:
    """The connection of a cursor: `cursor = self.connection.cursor()`."""
    for scope in function.chain():
        for _node, names, value in reversed(scope.bindings):
            while isinstance(value, ast.Await):
                value = value.value
            match value:
                case ast.Call(func=ast.Attribute(value=owner, attr="cursor")) if names == [path(receiver)]:
                    return path(owner)
                case _:
                    pass
    return path(receiver)


def _is_taken(held: str, function: Function) -> bool:
    """`connection = await pool.acquire()`: the function keeps it until it gives it back."""
    return any(
        names == [held] and last(path(value)) in _TAKEN
        for scope in function.chain()
        for node, names, value in scope.bindings
        if not isinstance(node, ast.With | ast.AsyncWith)
    )


def _freeing(module: Module, function: Function, held: str) -> list[Function]:
    """Where the lock may be freed: here, or in another method, if the object keeps the connection."""
    scopes = list(function.chain())
    if not held.startswith("self."):
        return scopes
    cls = owner_class(function)
    return scopes + [one for one in module.functions if one not in scopes and owner_class(one) is cls]


def _in_one_block(module: Module, taking: ast.Call, freeing: ast.Call, held: str) -> bool:
    """Whether the `with` that gives the connection back contains both. Another one may give another connection."""
    for around in module.up(taking):
        if isinstance(around, ast.With | ast.AsyncWith) and any(
            path(item.optional_vars) == held for item in around.items
        ):
            return inside(freeing, around)
    return True


RULE = Rule(
    code="SG303",
    name="session-advisory-lock-on-pool",
    summary="`pg_advisory_lock` on a pooled or proxied connection (transaction locks are fine): the "
    "pool's reset releases it silently",
    confidence="high",
    scope="fleet",
    hints=((b"advisory_lock", b"ADVISORY_LOCK"),),
    check=check,
    documentation=Documentation(
        what="`pg_advisory_lock` or `pg_try_advisory_lock` runs on a session or a pooled connection.",
        why="The lock lives as long as the server's session. After a commit, the pool may give the next "
        "statement another connection. The pool's reset may release the lock. A proxy in transaction "
        "mode mixes the sessions of several clients.",
        example='await session.execute(text("SELECT pg_try_advisory_lock(42)"))',
        instead='await session.execute(text("SELECT pg_try_advisory_xact_lock(42)"))   # ends with the transaction',
        unless="One function or object locks and unlocks on one connection that it holds, or the connection is outside "
        "any pool. Neither is reported.",
        sure="High on sessions; the text of the statement decides.",
        fix="No automatic fix: a transaction's lock ends with its transaction, and the statement "
        "does not show where that ends.",
    ),
)
