"""The cost of a miss, guessed from names. It only ranks the report."""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.source.words import path

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


def cost(node: ast.AST) -> tuple[str, ...]:
    called = " ".join(path(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call))
    return tuple(name for name, pattern in _KINDS if pattern.search(called))
