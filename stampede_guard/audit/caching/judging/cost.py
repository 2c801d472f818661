"""The cost of a miss, guessed from names. It only ranks the report."""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.caching.accesses import Access
from stampede_guard.audit.source.model import Function, inside, position
from stampede_guard.audit.source.words import names_in, path

_KINDS = (
    (
        "SQL",
        re.compile(
            r"\.execute|\.objects\b|\.query\b|fetch_?(?:all|val|row|one)|scalars?\b|session\.|crud|repo|\bdb\b|cursor",
            re.I,
        ),
    ),
    (
        "HTTP",
        re.compile(
            r"requests\.|httpx|aiohttp|urlopen|http_client|\.get_json|api\b|client\.(?:get|post)|fetch_(?!all|val|row|one)",
            re.I,
        ),
    ),
    ("model", re.compile(r"openai|anthropic|llm|embed|predict|generate|completion|inference", re.I)),
    ("render", re.compile(r"render|template", re.I)),
)
_ROWS = re.compile(
    r"_set\b|\.(?:filter|exclude|values_list|select_related|prefetch_related|execute|connect)\b"
)
_WAREHOUSES = re.compile(
    r"trino|presto|athena|bigquery|snowflake|redshift|clickhouse|elastic|opensearch", re.I
)
_DEPTH = 3


def cost(node: ast.AST) -> tuple[str, ...]:
    called = " ".join(path(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call))
    return tuple(name for name, pattern in _KINDS if pattern.search(called))


def is_cheap_if_empty(function: Function, read: Access, write: Access) -> bool:
    """Whether a miss only asks the own database for the rows of something that the key names.

    For a key without parameters it reads a whole table or an aggregate. Other services and warehouses answer slowly.
    """
    asking, storing = position(read.call), position(write.call)
    made = [call for call in function.calls if asking < position(call) and call is not write.call]
    made = [call for call in made if position(call) < storing or inside(call, write.call)]
    called = " ".join(path(call.func) for call in made)
    kinds = {*cost(ast.Tuple(elts=list(made), ctx=ast.Load()))} - {"render"}
    if _WAREHOUSES.search(called) or kinds - {"SQL"}:
        return False
    return ("SQL" in kinds or _ROWS.search(called) is not None) and _names_something(function, read.key)


def _names_something(function: Function, key: tuple[ast.expr, ...]) -> bool:
    """Whether the key depends on what the caller passes, or on the object itself."""
    names = {name for part in key for name in names_in(part)}
    for _ in range(_DEPTH):
        names |= {
            name
            for _node, bound, value in function.bindings
            if names & set(bound)
            for name in names_in(value)
        }
    return any(name.partition(".")[0] in function.parameters for name in names)
