"""Functions that ask nobody: nobody minds if two callers build the same.

Views whose answer is written in the program, and functions that make one object: a client, or settings.
"""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.source.model import Function, returns
from stampede_guard.audit.source.words import last, path

_OF_CONSTANTS = frozenset(
    "_ gettext pgettext ngettext gettext_lazy dumps str format join reverse strip dict".split()
)
# These fill a template. The number of their arguments without values for it.
_TEMPLATES = {"render": 2, "render_template": 1, "TemplateResponse": 2, "render_to_string": 1}
_FACTORY = re.compile(r"^from_|^create$|^build$|^make$")
_LOGS = frozenset(("logger", "log", "logging"))


def is_static(function: Function) -> bool:
    """A view of constants, perhaps translated: `HttpResponse("User-agent: *")`, or of a template without values."""
    return bool(function.calls) and all(map(_is_constant, function.calls))


def _is_constant(call: ast.Call) -> bool:
    name = last(path(call.func))
    if name in _TEMPLATES:
        return len(call.args) <= _TEMPLATES[name] and not call.keywords
    return name in _OF_CONSTANTS or name.endswith("Response")


def makes_one_object(function: Function) -> bool:
    """`return Table.from_environment(name=NAME)`, `settings = Settings()`: without parameters, there is one object."""
    ends = [end.value for end in returns(function)]
    made = {
        name
        for _node, names, value in function.bindings
        if isinstance(value, ast.Call) and _constructs(value)
        for name in names
    }
    if not ends or function.is_async or function.parameters - {"self", "cls"}:
        return False
    beside = _decorating(function)
    return all(call in beside or _constructs(call) or _is_log(call) for call in function.calls) and all(
        (isinstance(end, ast.Call) and _constructs(end)) or (isinstance(end, ast.Name) and end.id in made)
        for end in ends
    )


def _decorating(function: Function) -> list[ast.AST]:
    return [inner for decorator in function.node.decorator_list for inner in ast.walk(decorator)]


def _constructs(call: ast.Call) -> bool:
    """`Settings()`, `Table.from_url(url)`."""
    owner, _dot, name = path(call.func).rpartition(".")
    if _FACTORY.search(name):
        return owner == "cls" or last(owner)[:1].isupper()
    return name[:1].isupper() or path(call.func) == "cls"


def _is_log(call: ast.Call) -> bool:
    return path(call.func).partition(".")[0].lower() in _LOGS
