"""Commands that empty a whole store while the program serves requests."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from stampede_guard.audit.caching.clearing.reached import is_a_program
from stampede_guard.audit.caching.reexported import library_name, made_elsewhere
from stampede_guard.audit.source.model import Function, Module, owner_class
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.programs import is_started_by_hand
from stampede_guard.audit.source.startup import is_elected, started
from stampede_guard.audit.source.words import words

CALLS = re.compile(r"\b(?:flush_?(?:db|all)|clear)\s*\(|FLUSH(?:DB|ALL)", re.IGNORECASE)
_COMMANDS = frozenset(("flushdb", "flushall", "flush_db", "flush_all"))
_LIBRARIES = re.compile(
    r"^(?:django\.core\.cache\.(?:cache|caches)\b|flask_cach(?:ing|e)\.)|\bflask_cach(?:ing|e)\.Cache\(\)"
)
# Functions that are there to empty a store of its own: tests, resets of a development server.
_RESETS = re.compile(
    r"(?:^|_)(?:test|tests|teardown|tear|fixture|dev|debug|demo|seed|wipe|nuke)(?:_|$)", re.IGNORECASE
)

_EMPTIES = frozenset("clear flush empty purge reset rebuild drop wipe invalidate forget".split())
_ALL = frozenset(
    "all cache caches everything store database db redis index indexes indices keys entries".split()
)

What = Literal["store", "cache"]


@dataclass(frozen=True, eq=False)
class Flush:
    call: ast.Call
    function: Function
    # The keys of everything in the database, or the entries of a cache.
    what: What
    at_start: bool

    @property
    def is_told(self) -> bool:
        """Whether the function's name says that everything goes: `clear_cache`, `rebuild_all`, `RedisCache.clear`."""
        said = words(self.function.name)
        cls = owner_class(self.function)
        of = {*said[1:], *(words(cls.name) if cls is not None else ())}
        return said[:1] != () and said[0] in _EMPTIES and (len(said) == 1 or not _ALL.isdisjoint(of))


def flushes(module: Module) -> Iterator[Flush]:
    for function in module.functions_with(CALLS):
        if _RESETS.search(function.name):
            continue
        found = [(call, what) for call in function.calls if (what := _what(module, function, call))]
        at_start = any(scope in started(module) for scope in function.chain())
        if not found or (at_start and is_elected(module, function)):
            continue
        if at_start or not (is_a_program(module, function) or is_started_by_hand(module, function)):
            yield Flush(found[0][0], function, found[0][1], at_start)


def _what(module: Module, function: Function, call: ast.Call) -> What | None:
    if not isinstance(call.func, ast.Attribute):
        return None
    name = call.func.attr
    if name in _COMMANDS:
        return "store" if not _is_a_wrapper(function, name) else None
    if name == "execute_command" and call.args and isinstance(call.args[0], ast.Constant):
        return "store" if str(call.args[0].value).lower() in _COMMANDS else None
    if name != "clear" or call.args or call.keywords:
        return None
    receiver = call.func.value
    made = origin(module, receiver, function) or module.resolve(receiver)
    if _LIBRARIES.search(made):
        return "cache"
    named = library_name(module, receiver) or made_elsewhere(module, made)
    return "cache" if _LIBRARIES.search(named) else None


def _is_a_wrapper(function: Function, name: str) -> bool:
    """`def flushdb(self): self.client.flushdb()`: its callers decide."""
    return function.name in (name, f"a{name}")
