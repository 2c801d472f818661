"""Programs from a small grammar of cache idioms. How one was put together says whether it stampedes.

A program is one function: it looks into a cache, computes on a miss, stores and returns, in one of many spellings.
A protection is put around it, or something that only looks like one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import indent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stampede_guard.audit import audit_source
from stampede_guard.audit.engine import AuditOptions

FILLS = AuditOptions(codes=frozenset(("SG201", "SG202", "SG203")), least="low")


@dataclass(frozen=True)
class Cache:
    """How one kind of cache is asked and told; {key} and {value} are filled in."""

    name: str
    read: str
    write: str
    head: str = ""


CACHES = (
    Cache("redis", "await redis.get({key})", "await redis.set({key}, {value}, ex=60)"),
    Cache("redis", "await redis.get({key})", "await redis.setex({key}, 60, {value})"),
    Cache("attribute", "await self.redis.get({key})", "await self.redis.set({key}, {value})"),
    Cache(
        "sync",
        "client.get({key})",
        "client.setex({key}, 60, {value})",
        "import redis\nclient = redis.Redis()\n",
    ),
    Cache(
        "django", "cache.get({key})", "cache.set({key}, {value}, 60)", "from django.core.cache import cache\n"
    ),
    Cache(
        "memcached", "mc.get({key})", "mc.set({key}, {value})", "import memcache\nmc = memcache.Client([])\n"
    ),
    Cache("getter", "get_cache().get({key})", "get_cache().set({key}, {value}, timeout=60)"),
    Cache("helpers", "await get_cached_page({key})", "await set_cached_page({key}, {value})"),
    Cache(
        "helper object", "await self.cache.fetch_page({key})", "await self.cache.store_page({key}, {value})"
    ),
)
KEYS = ("key", "'page'", "f'page:{number}'", "page_key(number)")
COMPUTES = (
    "value = await load(number)",
    "value = compute(number)",
    "value = [row.name for row in await rows(number)]",
    "async with pool.acquire_session() as session:\n    value = await session.execute(number)",
    "value = []\nfor row in rows(number):\n    value.append(row)",
    "try:\n    value = compute(number)\nexcept ValueError:\n    value = fallback(number)",
)
STORED = ("value", "dumps(value)", "json.dumps(value, default=str)", "value.model_dump_json()")
NOISE = ("", "logger.info('page %s', number)\n", "settings.get('page')\n", "count = other.get('hits')\n")


def early_return(read: str, compute: str, write: str) -> str:
    return f"found = {read}\nif found is not None:\n    return loads(found)\n{compute}\n{write}\nreturn value"


def miss_branch(read: str, compute: str, write: str) -> str:
    inside = indent(f"{compute}\n{write}", "    ")
    return f"value = {read}\nif value is None:\n{inside}\nreturn value"


def walrus(read: str, compute: str, write: str) -> str:
    return f"if (found := {read}) is not None:\n    return found\n{compute}\n{write}\nreturn value"


def guarded(read: str, compute: str, write: str) -> str:
    looked = f"try:\n    found = {read}\nexcept ConnectionError:\n    found = None\n"
    return f"{looked}if found:\n    return found\n{compute}\n{write}\nreturn value"


SHAPES: tuple[Callable[[str, str, str], str], ...] = (early_return, miss_branch, walrus, guarded)


def bare(body: str) -> str:
    return body


def under(lock: str) -> Callable[[str], str]:
    return lambda body: f"{lock}\n{indent(body, '    ')}"


def claimed(body: str) -> str:
    return (
        f"if not await redis.set('claim', token, nx=True, ex=5):\n    return await wait_for(number)\n{body}"
    )


def in_flight(body: str) -> str:
    joined = "if number in self._inflight:\n    return await self._inflight[number]\n"
    return f"{joined}self._inflight[number] = loop.create_future()\n{body}"


PROTECTIONS = (
    under("async with lock:"),
    under("async with self.locks[number]:"),
    under("async with redis.lock(f'lock:{number}', timeout=5):"),
    under("with key_lock(number):"),
    claimed,
    in_flight,
)


def beside(body: str) -> str:
    """A lock that is given back before anybody looks."""
    return f"async with lock:\n    await count(number)\n{body}"


def own_lock(body: str) -> str:
    """A lock that nobody else can meet."""
    return f"mine = asyncio.Lock()\nasync with mine:\n{indent(body, '    ')}"


def limited(body: str) -> str:
    """Not one at a time."""
    return f"async with semaphore:\n{indent(body, '    ')}"


NOTHINGS = (bare, beside, own_lock, limited)


@st.composite
def programs(draw: st.DrawFn, around: st.SearchStrategy[Callable[[str], str]]) -> str:
    cache, key = draw(st.sampled_from(CACHES)), draw(st.sampled_from(KEYS))
    write = cache.write.format(key=key, value=draw(st.sampled_from(STORED)))
    shape = draw(st.sampled_from(SHAPES))
    core = shape(cache.read.format(key=key), draw(st.sampled_from(COMPUTES)), write)
    body = draw(st.sampled_from(NOISE)) + draw(around)(core)
    source = (
        f"import asyncio\n{cache.head}\nasync def page(self, redis, key, number):\n{indent(body, '    ')}\n"
    )
    ast.parse(source)
    return source


def verdict(source: str) -> list[str]:
    outcome = audit_source("made.py", source.encode(), FILLS)
    assert outcome.skipped == []
    return [finding.code for finding in outcome.findings]


@settings(max_examples=300, deadline=None)
@given(programs(st.sampled_from(NOTHINGS)))
def test_a_fill_that_nothing_protects_is_reported_once(source: str) -> None:
    assert len(verdict(source)) == 1, source


@settings(max_examples=300, deadline=None)
@given(programs(st.sampled_from(PROTECTIONS)))
def test_a_fill_whose_callers_wait_for_one_is_sound(source: str) -> None:
    assert verdict(source) == [], source


@settings(max_examples=150, deadline=None)
@given(programs(st.just(bare)), st.sampled_from(("async with lock:", "async with self.locks[number]:")))
def test_a_lock_without_a_second_look_protects_nothing(source: str, lock: str) -> None:
    """The look stands before the lock: whoever waited for the lock computes once more."""
    head, _, body = source.partition("number):\n")
    lines = body.splitlines()
    compute = next(i for i, line in enumerate(lines) if _computes(line))
    if not lines[compute].startswith("    ") or lines[compute].startswith("        "):
        return  # a shape that computes inside a branch
    locked = [*lines[:compute], f"    {lock}", *(f"    {line}" for line in lines[compute:])]
    assert len(verdict(f"{head}number):\n" + "\n".join(locked))) == 1, "\n".join(locked)


def _computes(line: str) -> bool:
    return line.strip().startswith(
        ("value = await load", "value = compute", "value = [row", "async with pool", "value = []")
    )


@settings(max_examples=150, deadline=None)
@given(
    cache=st.sampled_from(CACHES[:6]),
    key=st.sampled_from(KEYS),
    body=st.sampled_from(
        (
            "found = {read}\n{bump}",  # a counter
            "found = {read}\nif found is not None:\n    {same}\nreturn found",  # a new lease of life
            "found = {read}\nif found is None:\n    return None\nreturn found",  # only a look
            "value = compute(number)\n{write}\nreturn value",  # only a store
            "found = {read}\nif found is None:\n    {flag}\nreturn found",  # a marker
            "found = {read}\nif found is None:\n    value = compute(number)\n    {elsewhere}\nreturn found",
        )
    ),
)
def test_what_is_no_fill_is_left_alone(cache: Cache, key: str, body: str) -> None:
    body = body.format(
        read=cache.read.format(key=key),
        write=cache.write.format(key=key, value="value"),
        bump=cache.write.format(key=key, value="int(found or 0) + 1"),
        same=cache.write.format(key=key, value="found"),
        flag=cache.write.format(key=key, value="'1'"),
        elsewhere=cache.write.format(key="'elsewhere:all'", value="value"),
    )
    source = f"{cache.head}\nasync def page(self, redis, key, number):\n{indent(body, '    ')}\n"
    assert verdict(source) == [], source


@pytest.mark.parametrize("wrapper", ["async def wrapper(*args):", "def wrapper(*args):"])
@pytest.mark.parametrize(
    "cache", [cache for cache in CACHES if cache.name in ("redis", "sync", "django", "memcached")]
)
def test_the_same_in_a_decorator_is_reported_at_its_definition(cache: Cache, wrapper: str) -> None:
    core = early_return(
        cache.read.format(key="key"), "value = function(*args)", cache.write.format(key="key", value="value")
    )
    if wrapper.startswith("def"):
        core = core.replace("await ", "")
    inner = indent(f"{wrapper}\n{indent(core, '    ')}\nreturn wrapper", "    ")
    source = f"{cache.head}\ndef cached(function, redis, key):\n{inner}\n"
    assert verdict(source) == ["SG203"], source
