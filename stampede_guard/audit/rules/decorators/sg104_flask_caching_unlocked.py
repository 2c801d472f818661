"""SG104: Flask-Caching's `cached` and `memoize`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stampede_guard.audit.caching.judging.cost import cost
from stampede_guard.audit.caching.judging.static import is_static
from stampede_guard.audit.caching.judging.worth import level_of
from stampede_guard.audit.caching.reexported import is_of_own_class, library_name
from stampede_guard.audit.finding import Confidence
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.decorations import Decoration, applied, decorations, receiver_of
from stampede_guard.audit.source.model import Module
from stampede_guard.audit.source.words import is_cachy, last, path

_FLASK = ("flask_caching.", "flask_cache.", "flask_caching_extensions.", "cachelib.")
# Objects of other libraries, which have their own rule or lock. Whole words: "monitoring" is no ring.
_OTHERS = re.compile(
    r"(?<![a-z])(?:diskcache|walrus|aiocache|cashews|joblib|ring|dogpile|cachetools|beaker|functools|async_lru|cachebox|"
    r"py_cachify|streamlit|fastapi_cache|cacheout|asyncache|huey|lnbits)(?![a-z])",
    re.IGNORECASE,
)


def check(module: Module) -> Iterator[Violation]:
    for decoration in decorations(module):
        confidence = _confidence(module, decoration)
        if confidence:
            yield Violation(
                node=decoration.node,
                message=f"Flask-Caching's {decoration.tail} has no lock: concurrent misses of "
                f"{decoration.function.name}() all compute",
                confidence=confidence,
                level=level_of(module, decoration.function, lifetime=decoration.call),
                function=decoration.function.name,
                cost=cost(decoration.function.node),
            )
    if "flask" not in module.source:
        return
    for decoration in applied(module, "cached", "memoize"):
        confidence = _confidence(module, decoration)
        if confidence:
            yield Violation(
                node=decoration.node,
                message=f"Flask-Caching's {decoration.tail} has no lock: concurrent misses of what it wraps "
                "all compute",
                confidence=confidence,
                level=level_of(module, decoration.function, lifetime=decoration.call),
                function=decoration.function.name,
            )


def _confidence(module: Module, decoration: Decoration) -> Confidence | None:
    receiver = receiver_of(decoration)
    if decoration.tail not in ("cached", "memoize") or receiver is None or is_static(decoration.function):
        return None
    made = decoration.owner or decoration.name
    if not made.startswith(_FLASK):
        made = library_name(module, receiver) or made
    if made.startswith(_FLASK):
        return "high"
    if _OTHERS.search(made) or decoration.function.is_async or is_of_own_class(module, receiver):
        return None
    return "medium" if is_cachy(last(path(receiver))) else None


RULE = Rule(
    code="SG104",
    name="flask-caching-unlocked",
    summary="Flask-Caching's `cached`, `memoize`",
    confidence="high",
    scope="process",
    hints=((b".cached", b".memoize"), (re.compile(rb"\.cached\b"), re.compile(rb"\.memoize\b"))),
    check=check,
    guide="flask.md#from-flask-caching",
    documentation=Documentation(
        what="A view or function is cached with Flask-Caching.",
        why="Flask-Caching gets, calls and sets. Threads and workers that miss at the same time all compute.",
        example='@app.route("/report")\n@cache.cached(timeout=300)\ndef report(): ...',
        instead='@app.route("/report")\n@locked_cache(ttl=300)\ndef report(): ...',
        unless="The view is cheap, or one thread of one process serves it.",
        sure="High if the cache is created in this file, or in the file of the project that it is imported from, else "
        "medium. Silent for a cache of a class of the project, which SG203 judges, and for views of constants. "
        "A warning if a miss is much work: see SG201, else information.",
        fix="No automatic fix: a view's key is its path. The view returns a response or rendered "
        "text, whose type is not declared.",
    ),
)
