"""Views whose answer is written in the program: nobody minds if two callers build it."""

from __future__ import annotations

import ast

from stampede_guard.audit.source.model import Function
from stampede_guard.audit.source.words import last, path

_OF_CONSTANTS = frozenset(
    "_ gettext pgettext ngettext gettext_lazy dumps str format join reverse strip dict".split()
)
# These fill a template. The number of their arguments without values for it.
_TEMPLATES = {"render": 2, "render_template": 1, "TemplateResponse": 2, "render_to_string": 1}


def is_static(function: Function) -> bool:
    """A view of constants, perhaps translated: `HttpResponse("User-agent: *")`, or of a template without values."""
    return bool(function.calls) and all(map(_is_constant, function.calls))


def _is_constant(call: ast.Call) -> bool:
    name = last(path(call.func))
    if name in _TEMPLATES:
        return len(call.args) <= _TEMPLATES[name] and not call.keywords
    return name in _OF_CONSTANTS or name.endswith("Response")
