"""Attempts to take a lock whose answer nobody reads: the work goes on, with the lock or without it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.source.model import Function, Module, argument, position
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.words import is_locky, last, path, text_of

TAKES = re.compile(r"acquire\w*[\s\\]*\(|get_lock|advisory", re.IGNORECASE)
_TRIES = re.compile(r"^\s*select\s+(?:pg_try_advisory_(?:xact_)?lock\w*|get_lock)\s*\(", re.IGNORECASE)
# Their `acquire` answers False. Those of filelock, portalocker and kazoo raise.
_ANSWERS = re.compile(
    r"^(?:threading|multiprocessing|asyncio)\.(?:R?Lock|Condition)\(\)$|^(?:redis_lock|redis\.(?:asyncio\.)?lock)\.Lock\(\)$"
    r"|^fasteners\.InterProcessLock\(\)$|^(?:redis|aioredis|valkey|django\.core\.cache|django_redis)\b.*\.lock\(\)$"
)
_RUNS = frozenset("execute exec_driver_sql fetchval scalar fetchrow fetchone value".split())
_FETCHES = frozenset("fetchone fetchall fetch fetchval scalar one first".split())
_ASKS = frozenset("locked owned is_locked is_owned is_acquired".split())
_SAYS = re.compile(r"^(?:\w+\.)*(?:log\w*|print|warn\w*|messages|sentry_sdk|capture_\w+)\b", re.IGNORECASE)
_AWAY = re.compile(r"Redis|Connection|Unavailable|OSError|Unreachable", re.IGNORECASE)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def unread(module: Module) -> Iterator[tuple[ast.Call, Function, str]]:
    """Each such attempt, and why it may have failed: "its wait ended", or "it raised"."""
    for function in module.functions_with(TAKES):
        for call in function.calls:
            if _may_answer_no(module, function, call) and _is_unread(module, function, call):
                yield call, function, "its wait ends"
            elif _is_taken(call, function) and _is_swallowed(module, call):
                yield call, function, "it raises"


def _may_answer_no(module: Module, function: Function, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in _RUNS and call.args:
        return _TRIES.match(_sql(module, function, call.args[0])) is not None
    if call.func.attr != "acquire":
        return False
    receiver = call.func.value
    if not _ANSWERS.search(origin(module, receiver, function)):
        return False
    return _is_bounded(call) or any(_is_bounded(made) for made in _made(module, function, receiver))


def _is_bounded(call: ast.Call) -> bool:
    """`acquire(blocking=False)`, `acquire(timeout=5)`, `acquire(True, 5)`; of the lock: `blocking_timeout=5`."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "acquire":
        blocking = argument(call, 0, "blocking")
        if isinstance(blocking, ast.Constant) and blocking.value is False:
            return True
        limit = argument(call, 1, "timeout", "blocking_timeout")
    else:
        limit = argument(call, 99, "blocking_timeout")
        blocking = argument(call, 99, "blocking")
        if isinstance(blocking, ast.Constant) and blocking.value is False:
            return True
    if limit is None or isinstance(limit, ast.UnaryOp):  # `timeout=-1` waits for ever
        return False
    return not (isinstance(limit, ast.Constant) and limit.value is None)


def _made(module: Module, function: Function, receiver: ast.expr) -> Iterator[ast.Call]:
    """The calls that made a lock with a local name."""
    name = path(receiver)
    for scope in function.chain():
        for _node, names, value in scope.bindings:
            if name in names and isinstance(value, ast.Call):
                yield value


def _is_unread(module: Module, function: Function, call: ast.Call) -> bool:
    around = module.parents.get(call)
    while isinstance(around, ast.Await):
        around = module.parents.get(around)
    owner = path(call.func).rpartition(".")[0]
    later = [
        other
        for other in function.calls
        if isinstance(other.func, ast.Attribute)
        and position(other) > position(call)
        and path(other.func.value) == owner
        and other.func.attr in _FETCHES | _ASKS
    ]
    if later:
        return False
    if isinstance(around, ast.Expr):
        return True
    if (
        not isinstance(around, ast.Assign)
        or len(around.targets) != 1
        or not isinstance(around.targets[0], ast.Name)
    ):
        return False
    name = around.targets[0].id
    read = [node for said, node in function.loads if said == name and position(node) > position(call)]
    return all(_is_only_for_the_release(module, function, node) for node in read) and not _is_seen_outside(
        module, function, name
    )


def _is_only_for_the_release(module: Module, function: Function, node: ast.expr) -> bool:
    """`finally: if taken: lock.release()`: the work ran in both cases."""
    below: ast.AST = node
    for around in module.up(node):
        if isinstance(around, ast.Try) and below in around.finalbody:
            return True
        if around is function.node:
            return False
        below = around
    return False


def _is_seen_outside(module: Module, function: Function, name: str) -> bool:
    """A function inside, or a `nonlocal` name."""
    inner = [other for other in module.functions if other is not function and function in other.chain()]
    return any(name in {said for said, _node in other.loads} for other in inner)


def _is_taken(call: ast.Call, function: Function) -> bool:
    """`lock.acquire()`, `db.get_lock(name)`."""
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "acquire":
        return is_locky(last(path(call.func.value)))
    return call.func.attr in ("get_lock", "acquire_lock", "take_lock", "obtain_lock") and bool(call.args)


def _is_swallowed(module: Module, call: ast.Call) -> bool:
    """`try: lock.acquire()`, whose handler only says so, and the work follows."""
    statement = module.statement(call)
    around = module.parents.get(statement)
    if not isinstance(statement, ast.Expr) or not isinstance(around, ast.Try) or around.body != [statement]:
        return False
    if around.orelse or not around.handlers or not _is_followed(module, around):
        return False
    return any(
        all(_only_says(node) for node in handler.body) and not _AWAY.search(text_of(handler.type))
        for handler in around.handlers
    )


def _only_says(node: ast.stmt) -> bool:
    if isinstance(node, ast.Pass):
        return True
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and bool(_SAYS.match(path(node.value.func)))
    )


def _is_followed(module: Module, around: ast.Try) -> bool:
    """By work, and not only by a return."""
    block = next(
        (
            found
            for name in ("body", "orelse", "finalbody")
            if isinstance(found := getattr(module.parents.get(around), name, None), list) and around in found
        ),
        [],
    )
    following = block[block.index(around) + 1 :] if block else []
    return bool(following) and not isinstance(following[0], _LEAVES)


def _sql(module: Module, function: Function, node: ast.expr) -> str:
    if isinstance(node, ast.Call) and node.args:  # `text("SELECT ...")`
        node = node.args[0]
    if isinstance(node, ast.Name):
        bound = [value for _node, names, value in function.bindings if names == [node.id]]
        return text_of(bound[-1] if bound else module.values.get(node.id))
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    return text_of(node)


__all__ = ["TAKES", "unread"]
