"""SG605: `lru_cache` on a function that is given an object of the request."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.prefilter import Hint
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.decorations import decorations
from stampede_guard.audit.source.model import Module
from stampede_guard.audit.source.origins import annotated
from stampede_guard.audit.source.words import last

_LRU = re.compile(r"^functools\.(?:lru_cache|cache)(?:\(\))?$")
_OF_A_REQUEST = re.compile(
    r"^(?:\w*Request|Response|WebSocket|AsyncSession|Session|Connection|AsyncConnection|BackgroundTasks)$"
)
_NAMES = frozenset(("request", "response", "websocket"))
_HINT: Hint = (b"lru_cache", re.compile(rb"@(?:functools\.)?cache\b(?!\.)"), b" cache as ")
_GIVEN: Hint = (
    re.compile(rb"\b(?:request|response|websocket)\s*[,)=]"),
    re.compile(rb":\s*[\"']?[\w.\[]*(?:Request|Response|WebSocket|Session|Connection|BackgroundTasks)\b"),
)


def check(module: Module) -> Iterator[Violation]:
    for decoration in decorations(module):
        if not _LRU.match(decoration.name):
            continue
        function = decoration.function
        names = (argument.arg for argument in function.arguments if _is_of_one_request(module, argument))
        name = next(names, "")
        if name:
            yield Violation(
                node=decoration.node,
                message=f"{decoration.tail} has {name} in its key, another object for each request: no call finds an "
                "entry, and each entry keeps its object alive",
                function=function.name,
            )


def _is_of_one_request(module: Module, argument: ast.arg) -> bool:
    if argument.annotation is None:
        return argument.arg in _NAMES
    return _OF_A_REQUEST.match(last(annotated(module, argument.annotation))) is not None


RULE = Rule(
    code="SG605",
    name="kept-per-request",
    summary="`lru_cache` on a function that is given a request, a response or a session",
    confidence="high",
    scope="process",
    hints=((b"functools",), _HINT, _GIVEN),
    check=check,
    documentation=Documentation(
        what="`functools.lru_cache` or `cache` decorates a function with a parameter that is a request, a response, "
        "or a session of a database.",
        why="Each request has another such object, so no later call finds the entry. The cache keeps the objects "
        "alive: `lru_cache` the last 128, `cache` all of them.",
        example="@cache\ndef account(request):\n    return request.user.accounts.first()",
        instead="@locked_cache(ttl=60)\ndef account(user_id: int) -> Account: ...",
        unless="The parameter is one object for the life of the process.",
        sure="High: by the parameter's annotation, or by its name if it has none.",
        fix="No automatic fix: only the program knows which part of the request identifies the value.",
    ),
)
