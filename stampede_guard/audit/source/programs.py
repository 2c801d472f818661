"""Code that no second caller runs at the same time: scripts, management commands, tasks of a queue."""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.routes import is_route
from stampede_guard.audit.source.startup import is_main
from stampede_guard.audit.source.words import last, path

# Programs that people start.
_FOLDERS = re.compile(r"(?:^|/)(?:management/commands|scripts|migrations|alembic)/")
_TASKS = frozenset("task shared_task periodic_task actor db_task db_periodic_task job cron".split())
_QUEUES = ("enqueue", "enqueue_call", "enqueue_in", "enqueue_at")
_WEB = re.compile(
    r"^\s*(?:from|import)\s+(?:fastapi|starlette|flask|quart|sanic|litestar|django|aiohttp\.web)\b", re.M
)

# Programs that go on: daemons, workers, schedulers.
_GOES_ON = re.compile(
    r"while (?:True|1|not )|_forever|\.serve\w*\(|asyncio\.run\(|schedul|celery|\.consume\(|Thread\(|@\w*task\b",
    re.I,
)


def runs_alone(module: Module, function: Function) -> bool:
    """Whether the function runs in a program of its own, as far as its file shows."""
    if _FOLDERS.search(module.path.replace("\\", "/")) or _is_command(function):
        return True
    known: set[Function] | None = module.memo.get("alone")
    if known is None:
        known = module.memo["alone"] = _alone(module)
    return any(scope in known for scope in function.chain())


def is_started_by_hand(module: Module, function: Function) -> bool:
    """Whether a person starts the program of the function, and it ends: a management command, a script."""
    if _GOES_ON.search(module.source):
        return False
    if _FOLDERS.search(module.path.replace("\\", "/")) or _is_command(function):
        return True
    if "__main__" not in module.source or _WEB.search(module.source) is not None:
        return False
    known: set[Function] | None = module.memo.get("by-hand")
    if known is None:
        known = module.memo["by-hand"] = _with_callees(module, _started_by_main(module))
    return any(scope in known for scope in function.chain())


def _is_command(function: Function) -> bool:
    return function.cls is not None and any("BaseCommand" in path(base) for base in function.cls.bases)


def _alone(module: Module) -> set[Function]:
    """Tasks, what `__main__` starts, and functions of this file that only those call."""
    found = {function for function in module.functions if _is_task(function)} | _enqueued(module)
    if "__main__" in module.source and _WEB.search(module.source) is None:
        found |= _started_by_main(module)
    return _with_callees(module, found)


def _with_callees(module: Module, found: set[Function]) -> set[Function]:
    """These, and functions of this file that only they call."""
    found = set(found)
    for _ in range(len(module.functions)):
        more = {f for f in _called(module, found) - found if _only_from(module, f, found)}
        if not more:
            break
        found |= more
    return found


def _is_task(function: Function) -> bool:
    return any(
        last(path(decorator)) in _TASKS and not is_route(decorator)
        for decorator in function.node.decorator_list
    )


def _enqueued(module: Module) -> set[Function]:
    """`queue.enqueue(scan, ...)`: a worker of the queue runs the function."""
    if "enqueue" not in module.source:
        return set()
    given = [node for call in module.calls_of(*_QUEUES) for node in call.args[:2]]
    return {
        function
        for node in given
        if isinstance(node, ast.Name)
        for function in module.functions_named(node.id)
    }


def _started_by_main(module: Module) -> set[Function]:
    calls = [call for call in module.calls_outside if is_main(module, call)]
    names = {name.id for call in calls for name in ast.walk(call) if isinstance(name, ast.Name)}
    return {function for name in names for function in module.functions_named(name)}


def _called(module: Module, callers: set[Function]) -> set[Function]:
    return {
        callee
        for function in module.functions
        if any(scope in callers for scope in function.chain())
        for call in function.calls
        if (callee := module.callee(call, function)) is not None
    }


def _only_from(module: Module, function: Function, callers: set[Function]) -> bool:
    if any(is_route(decorator) for decorator in function.node.decorator_list):
        return False
    users = [module.owners.get(call) for call in module.uses(function)]
    return all(user is not None and any(scope in callers for scope in user.chain()) for user in users)
