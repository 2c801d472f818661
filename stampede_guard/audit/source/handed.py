"""Calls that another call makes: `to_thread(cache.get, key)`, `add_task(store, user)`, `sync_to_async(load)(key)`."""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.source.words import last, path

# By how many arguments come before the function.
_BEFORE = {
    **dict.fromkeys(("to_thread", "run_in_threadpool", "run_sync", "add_task", "submit", "call_soon"), 0),
    **dict.fromkeys(("run_in_executor",), 1),
}
_WRAPPERS = frozenset("sync_to_async async_to_sync asyncify to_async run_async".split())
HANDING = tuple(name.encode() for name in (*_BEFORE, *_WRAPPERS))
# Where such a call may be, in text: the name that it is given follows.
HANDED = re.compile(
    rb"\b(?:(?:to_thread|run_in_threadpool|run_sync|add_task|submit|call_soon)\s*\(|run_in_executor\s*\([^,()]*(?:\([^()]*\))?,"
    rb"|(?:sync_to_async|async_to_sync|asyncify|to_async|run_async)\s*\()\s*((?:\w+(?:\(\))?\.)*)(\w+)\s*[,)]"
)


def handed(call: ast.Call) -> ast.Call | None:
    """The call that is made in a thread or later, with its own arguments; None for a usual call."""
    if isinstance(call.func, ast.Call):
        inner = call.func
        if last(path(inner.func)) not in _WRAPPERS or not inner.args:
            return None
        target, given = inner.args[0], call.args
    else:
        before = _BEFORE.get(last(path(call.func)))
        if before is None or len(call.args) <= before:
            return None
        target, given = call.args[before], call.args[before + 1 :]
    if not isinstance(target, ast.Attribute | ast.Name):
        return None
    return ast.copy_location(ast.Call(func=target, args=given, keywords=call.keywords), call)
