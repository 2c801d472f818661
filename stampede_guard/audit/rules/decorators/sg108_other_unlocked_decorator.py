"""SG108: decorators of other caching libraries without a lock."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.judging.cost import cost
from stampede_guard.audit.caching.judging.worth import level_of
from stampede_guard.audit.prefilter import Hint, Text
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.decorations import Decoration, decorations, is_true
from stampede_guard.audit.source.model import Module

_LRU = re.compile(r"^functools\.(?:lru_cache|cache)(?:\(\))?$")
_BUCKET = re.compile(r"(?:^|_)(?:ttl_hash|time_bucket|time_key|ttl_key|expiry_hash|time_hash)(?:$|_)")

# Qualified names, of the decorator or of its object.
_UNLOCKED = (
    ("py-cachify", re.compile(r"^py_cachify(\.\w+)*\.(cached|sync_cached|async_cached)(\(\))?$")),
    ("diskcache", re.compile(r"^diskcache\.\w*(Cache|Index)\(\)\.memoize$|^diskcache\.memoize_stampede$")),
    ("walrus", re.compile(r"^walrus\..*\.cached(_property)?$")),
    (
        "ring",
        re.compile(
            r"^ring\.(dict|lru|memcache|redis|redis_hash|aiomcache|aioredis|django|disk|shelve|arcus)\b"
        ),
    ),
    ("joblib", re.compile(r"^joblib\.(Memory\(\)|memory\.Memory\(\))\.cache$")),
    ("python-redis-cache", re.compile(r"^redis_cache\.(RedisCache\(\)\.cache|cache_it\w*)$")),
    ("asyncache", re.compile(r"^asyncache\.(cached|cachedmethod)$")),
    ("django-cache-memoize", re.compile(r"^cache_memoize\.cache_memoize$")),
    ("django-cacheops", re.compile(r"^cacheops(\.\w+)*\.(cached|cached_as|cached_view|cached_view_as)$")),
    ("fastapi-redis-cache", re.compile(r"^fastapi_redis_cache(\.\w+)*\.cache(_one_\w+)?$")),
    ("frappe", re.compile(r"^frappe(\.utils\.caching)?\.redis_cache$")),
    ("huey", re.compile(r"^huey\..*\.cache$")),
    ("cacheout", re.compile(r"^cacheout\..*\.memoize$")),
    ("redis-decorators", re.compile(r"^redis_decorators(\.\w+)*\.\w*(cache|memoize)\w*$", re.IGNORECASE)),
    ("memoize", re.compile(r"^(memoize\.(wrapper|configuration)\.memoize|memoize\.Memoizer\(\).*)$")),
    ("aiocached", re.compile(r"^(aiocached|aiomemoize|cached_async|aio_memoize)\.\w+$")),
    ("fastapi-cachekit", re.compile(r"^fast_cache\.\w+\(?\)?\.cached$")),
)
# Words of a file that uses one of them.
_LIBRARIES: Hint = (
    *(b"py_cachify", b"diskcache", b"walrus", b"import ring", b"from ring", b"joblib", b"redis_cache"),
    *(b"asyncache", b"cache_memoize", b"cacheops", b"huey", b"cacheout", b"redis_decorators"),
    *(b"import memoize", b"from memoize", b"aiocached", b"fast_cache"),
)
_NAMED_BUCKETS: Hint = (b"ttl_hash", b"time_bucket", b"time_key", b"ttl_key", b"expiry_hash", b"time_hash")
_DIVIDED: Hint = (re.compile(rb"//(?<!://)[ \t]*[\w(]"), re.compile(rb"time\(\)[ \t]*/"))


def _may_have_buckets(text: Text) -> bool:
    """Most files with `lru_cache` divide no time."""
    return text.has_any(_NAMED_BUCKETS) or (text.has_any((b"time",)) and text.has_any(_DIVIDED))


def check(module: Module) -> Iterator[Violation]:
    yield from _by_time_buckets(module)
    for decoration in decorations(module):
        library = _library(decoration)
        if library is None or is_true(decoration.keyword("lock")):
            continue
        cold = " on cold keys" if decoration.tail == "memoize_stampede" else ""
        yield Violation(
            node=decoration.node,
            message=f"{library}'s {decoration.tail} has no lock{cold}: concurrent misses of "
            f"{decoration.function.name}() all compute",
            level=level_of(module, decoration.function, lifetime=decoration.call),
            function=decoration.function.name,
            cost=cost(decoration.function.node),
        )


def _by_time_buckets(module: Module) -> Iterator[Violation]:
    """`@lru_cache` with a parameter that changes with the clock: the entry expires, and all threads compute."""
    for decoration in decorations(module):
        function = decoration.function
        if not _LRU.match(decoration.name) or isinstance(function.node, ast.AsyncFunctionDef):
            continue
        if not any(_BUCKET.search(name) for name in function.parameters) and not any(
            _is_bucket(module, value)
            for call in module.calls_of(function.name)
            for value in (*call.args, *(keyword.value for keyword in call.keywords))
        ):
            continue
        yield Violation(
            node=decoration.node,
            message=f"lru_cache joins no callers, and the time in its key makes it expire: all threads compute "
            f"{function.name}() at the end of each period",
            confidence="medium",
            level=level_of(module, function),
            function=function.name,
            cost=cost(function.node),
        )


def _is_bucket(module: Module, value: ast.expr) -> bool:
    """`int(time.time() // 300)`, `round(time.time() / 60)`, or a function of this file that returns such a number."""
    text = ast.dump(value)
    if "'time'" in text and ("FloorDiv()" in text or "Div()" in text):
        return True
    name = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
    return any(
        ("FloorDiv()" in (told := ast.dump(made.node)) and "'time'" in told)
        or _BUCKET.search(name) is not None
        for made in (module.functions_named(name) if name else ())
    )


def _library(decoration: Decoration) -> str | None:
    names = [decoration.name]
    if decoration.owner:
        names.append(f"{decoration.owner}.{decoration.tail}")
    return next((library for library, known in _UNLOCKED if any(known.match(name) for name in names)), None)


RULE = Rule(
    code="SG108",
    name="other-unlocked-decorator",
    summary="py_cachify `cached`, diskcache `memoize` (and `memoize_stampede` on cold keys), walrus, "
    "ring, joblib, python-redis-cache and others; `lru_cache` with a time bucket",
    confidence="high",
    scope="process",
    hints=((b"cache",), (*_LIBRARIES, b"lru_cache", b"functools")),
    near=lambda text: text.has_any(_LIBRARIES) or _may_have_buckets(text),
    check=check,
    documentation=Documentation(
        what="A function is cached by a library's decorator that gets, calls and sets.",
        why="None of these decorators joins concurrent misses. diskcache's `memoize_stampede` recomputes "
        "early, but every caller computes a cold key. `lru_cache` with the time in its key expires like they do.",
        example="@cache.memoize(expire=60)\ndef search(query): ...",
        instead="@locked_cache(ttl=60)\ndef search(query: str) -> list[str]: ...",
        unless="There is one caller at a time, as in scripts and notebooks.",
        sure="High: by import, or by the constructor of the object in the same file. Medium for `lru_cache`: a "
        "parameter or an argument shows that the time is in the key. "
        "A warning if a miss is much work: see SG201, else information.",
        fix="No automatic fix: each library has its own keys, stores and lifetimes, and other "
        "code may clear them.",
    ),
)
