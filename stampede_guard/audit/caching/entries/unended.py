"""Transactions that something else ends, after the function: a request, a middleware, a dependency."""

from __future__ import annotations

import ast
import os
import re
from functools import lru_cache

from stampede_guard.audit.caching.imported import follow
from stampede_guard.audit.source.model import Function, Module, inside, position
from stampede_guard.audit.source.words import last, path, words

_SETTINGS = re.compile(r"DJANGO_SETTINGS_MODULE[\"'],\s*[\"']([\w.]+)[\"']")
_STARRED = re.compile(r"^from\s+([\w.]+)\s+import\s+\*", re.M)
_ATOMIC = re.compile(r"ATOMIC_REQUESTS[\"']?\]?\s*[:=]\s*True|ATOMIC_REQUESTS[^\n]*default=True")
_HOPS = 4  # files of settings that import one another
_LARGEST = 200_000  # bytes of such a file
_CHANGES = frozenset("add add_all merge delete bulk_save_objects bulk_insert_mappings".split())
_ENDS = frozenset("commit committed transaction transactional atomic autocommit".split())
_SQLALCHEMY = re.compile(
    r"\b(?:flask_)?sqlalchemy\b|\bsqlmodel\b|\bAsyncSession\b|\bg\.db\b|\bdb\.session\b", re.I
)
_SENT = re.compile(r"^post_(?:save|delete)$")


def of_the_request(module: Module, function: Function) -> bool:
    """Whether Django's setting ATOMIC_REQUESTS makes each request one transaction, in which the function writes."""
    if not _writes_rows(module, function) or "non_atomic_requests" in module.source:
        return False
    place = follow(module, module.path, "manage")
    for _ in range(_HOPS):
        if place is None:
            return False
        atomic, following = _told(place, os.stat(place).st_mtime_ns)
        if atomic:
            return True
        place = next(
            (found for name in following if (found := follow(module, place, name)) is not None), None
        )
    return False


@lru_cache(maxsize=64)
def _told(place: str, _changed: int) -> tuple[bool, tuple[str, ...]]:
    """Whether a file sets it, and the modules of settings that it names."""
    try:
        with open(place, encoding="utf-8", errors="replace") as file:
            text = file.read(_LARGEST)
    except OSError:
        return False, ()
    return _ATOMIC.search(text) is not None, (*_SETTINGS.findall(text), *_STARRED.findall(text))


def _writes_rows(module: Module, function: Function) -> bool:
    """By Django's methods, or as a receiver of what was just saved."""
    for node in function.node.decorator_list:
        if isinstance(node, ast.Call) and last(path(node.func)) == "receiver" and node.args:
            if any(
                _SENT.match(last(path(inner)))
                for inner in ast.walk(node.args[0])
                if isinstance(inner, ast.expr)
            ):
                return True
    return any(_writes(call) for call in function.calls)


def _writes(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    said = path(call.func)
    if ".objects." in said:
        return call.func.attr in (
            "create",
            "update",
            "delete",
            "get_or_create",
            "update_or_create",
            "bulk_create",
        )
    if call.func.attr == "save":
        return not call.args and "cache" not in said.lower()
    return call.func.attr == "delete" and not call.args and not call.keywords


def left_open(module: Module, function: Function, deletion: ast.Call) -> bool:
    """Whether the function changes rows in a session of SQLAlchemy, and leaves the commit to somebody after it."""
    changes = [
        call for call in function.calls if _is_change(call) and not _ends_before(module, call, deletion)
    ]
    if not changes or _SQLALCHEMY.search(module.source) is None:
        return False
    for node in (function.node, *(scope.node for scope in function.chain())):
        if not _ENDS.isdisjoint(word for one in node.decorator_list for word in words(last(path(one)))):
            return False
    first = min(map(position, changes))
    return not any(
        _may_commit(call, changes)
        for call in function.calls
        if first <= position(call) and call is not deletion
    )


def _is_change(call: ast.Call) -> bool:
    """`session.add(order)`, `g.db.delete(block)`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _CHANGES or len(call.args) != 1:
        return False
    owner = path(call.func.value)
    return last(owner) in ("session", "db_session") or owner in ("g.db", "db", "self.db")


def _ends_before(module: Module, change: ast.Call, deletion: ast.Call) -> bool:
    """`with Session.begin() as session: session.add(order)`, and the deletion after it."""
    return any(
        isinstance(around, ast.With | ast.AsyncWith) and not inside(deletion, around)
        for around in module.up(change)
    )


def _may_commit(call: ast.Call, changes: list[ast.Call]) -> bool:
    """A commit, or a call that is given the session and might commit."""
    if not _ENDS.isdisjoint(words(last(path(call.func)))):
        return True
    sessions = {path(change.func.value) for change in changes if isinstance(change.func, ast.Attribute)}
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(path(value) in sessions for value in given)
