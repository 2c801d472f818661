"""Code that one of several processes runs for all of them: a request, a task, a change of shared data."""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.source.model import Function, Module, argument
from stampede_guard.audit.source.routes import is_route
from stampede_guard.audit.source.startup import is_main, is_single_program, started
from stampede_guard.audit.source.words import last, path, words

_TASKS = frozenset("task shared_task periodic_task actor job".split())
_PROGRAMS = re.compile(
    r"(?:^|/)(?:management/commands|scripts?|migrations|alembic|tests?|commands|maintenance|bin|tools)/|/conftest\.py$"
)
_CLI = re.compile(r"\b(?:command|click|typer|cli)\b")
_SAVES = frozenset(
    "commit acommit save asave bulk_create bulk_update update_or_create get_or_create flush".split()
)
_CHANGES = frozenset("create update delete acreate aupdate adelete".split())
_STATEMENTS = re.compile(r"^\s*(?:update|insert|delete|replace|merge)\b", re.IGNORECASE)
_REQUESTS = ("HttpRequest", "Request", "WSGIRequest")


def is_a_program(module: Module, function: Function) -> bool:
    """Whether a person starts it, or it begins the process: nothing that a running fleet does."""
    # The nearest folders only: what is above them is where the project lies.
    nearest = "/".join(module.path.replace("\\", "/").split("/")[-3:])
    if _PROGRAMS.search(nearest) or is_single_program(module):
        return True
    if any(_CLI.search(path(node)) for node in function.node.decorator_list):
        return True
    return any(scope in started(module) for scope in function.chain()) or is_main(module, function.node)


def answers_a_request(module: Module, function: Function) -> bool:
    """A route, or a view of Django."""
    for scope in function.chain():
        if any(is_route(node) for node in scope.node.decorator_list):
            return True
        if any(
            last(path(node)) in ("api_view", "action", "require_POST") for node in scope.node.decorator_list
        ):
            return True
        first = [one for one in scope.arguments if one.arg not in ("self", "cls")][:1]
        if first and first[0].arg == "request" and _is_a_view(module, first[0]):
            return True
    return False


def _is_a_view(module: Module, first: ast.arg) -> bool:
    return "django" in module.source or last(path(first.annotation)) in _REQUESTS


def is_a_task(function: Function) -> bool:
    return any(
        last(path(node)) in _TASKS and not is_route(node)
        for scope in function.chain()
        for node in scope.node.decorator_list
    )


def changes_rows(function: Function) -> bool:
    """Whether the function stores something for all processes: `session.commit()`, `user.save()`."""
    return any(_changes(call) for call in function.calls)


def _changes(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    said = path(call.func)
    if call.func.attr in _SAVES:
        return not said.startswith(("sys.", "plt.", "torch.")) and "cache" not in said.lower()
    if call.func.attr in _CHANGES:
        return ".objects." in said or words(last(path(call.func.value)))[-1:] in (("repo",), ("repository",))
    stated = argument(call, 0, "query", "statement")
    if isinstance(stated, ast.Call) and stated.args:
        stated = stated.args[0]
    return (
        call.func.attr in ("execute", "executemany")
        and isinstance(stated, ast.Constant)
        and isinstance(stated.value, str)
        and _STATEMENTS.match(stated.value) is not None
    )
