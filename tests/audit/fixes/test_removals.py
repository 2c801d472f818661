"""A file that removes entries of the old cache would not reach the new ones, so it keeps the old cache."""

from __future__ import annotations

import pytest

from tests.audit.fixes.rewriting import rewritten, told

CASHEWS = '@cache(ttl="1h")\nasync def rates(currency: str) -> float:\n    return 1.0\n\n\n'
AIOCACHE = CASHEWS.replace('cache(ttl="1h")', "cached(ttl=60)")
FASTAPI = CASHEWS.replace('cache(ttl="1h")', "cache(expire=60)")


def removing(code: str, decorator: str = "") -> str:
    return f"{decorator}async def change(currency: str) -> None:\n    {code}\n"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("SG103", "from cashews import cache\n" + CASHEWS + removing('await cache.delete_match("*rates*")')),
        ("SG103", "from cashews import cache\n" + CASHEWS + removing('await cache.delete("rates:eur")')),
        ("SG103", "from cashews import cache\n" + CASHEWS + removing("await cache.clear()")),
        ("SG103", "from cashews import cache\n" + CASHEWS + removing('await cache.delete_tags("a")')),
        (
            "SG103",
            "from cashews import cache\n" + CASHEWS + removing("...", '@cache.invalidate("*rates*")\n'),
        ),
        ("SG103", "import cashews\n" + CASHEWS.replace("@", "@cashews.") + removing("cashews.cache.clear()")),
        ("SG103", "from cashews import Cache\ncache = Cache()\n" + CASHEWS + removing("await cache.clear()")),
        ("SG102", "from aiocache import *\n" + AIOCACHE + removing("await SimpleMemoryCache().clear()")),
        (
            "SG102",
            "from aiocache import SimpleMemoryCache, cached\n"
            + AIOCACHE
            + removing("SimpleMemoryCache().clear()"),
        ),
        (
            "SG102",
            "from aiocache import caches, cached\n" + AIOCACHE + removing('caches.get("default").clear()'),
        ),
        (
            "SG102",
            "from aiocache import Cache, cached\nkept = Cache()\n" + AIOCACHE + removing("kept.delete('a')"),
        ),
        (
            "SG102",
            "import redis\nfrom aiocache import cached\nr = redis.Redis()\n"
            + AIOCACHE
            + removing("r.flushdb()"),
        ),
        (
            "SG102",
            "from aiocache import cached\nfrom app import redis_client\n"
            + AIOCACHE
            + removing("redis_client.delete('a')"),
        ),
        *(
            (
                "SG101",
                f"from fastapi_cache.decorator import cache\n{imported}\n"
                + FASTAPI
                + removing(f"await {call}"),
            )
            for imported, call in (
                ("from fastapi_cache import FastAPICache", "FastAPICache.clear(namespace='a')"),
                ("from fastapi_cache import FastAPICache", "FastAPICache.get_backend().clear()"),
                ("from fastapi_cache import FastAPICache as Cached", "Cached.clear()"),
                ("import fastapi_cache", "fastapi_cache.FastAPICache.clear()"),
                ("from app.cache import FastAPICache", "FastAPICache.get_backend().clear()"),
            )
        ),
    ],
)
def test_a_decorator_whose_entries_the_file_removes_is_not_replaced_unseen(code: str, text: str) -> None:
    if "import *" in text:
        text = text.replace("import *", "import SimpleMemoryCache, cached")
    assert all(
        finding.fix != "safe" and (finding.no_fix or finding.fix_reasons) for finding in told(text, code)
    )
    assert rewritten(text, code, unsafe=False) == text


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("SG103", "from cashews import cache\n" + CASHEWS + removing("rows.clear()")),
        ("SG102", "from aiocache import cached\n" + AIOCACHE + removing("await session.delete(row)")),
    ],
)
def test_other_objects_are_none_of_its_business(code: str, text: str) -> None:
    assert "@locked_cache(" in rewritten(text, code, unsafe=False)


HEAD = """import json

import redis

from shop import db

r = redis.Redis()
KEY = "stock-of:%s"


def day_key(day):
    return f"made:{day}"


"""
FILL = """def sales(day: str) -> dict[str, int]:
    key = f"sales:{day}"
    found = r.get(key)
    if found is not None:
        return json.loads(found)
    value = db.query(day)
    r.setex(key, 3600, json.dumps(value))
    return value


"""


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ('f"sales:{day}"', 'with r.pipeline() as pipe:\n        pipe.delete(f"sales:{day}")'),
        ('f"sales:{day}"', "pipe = r.pipeline()\n    pipe.unlink(made(day))"),
        ('f"sales:{day}"', 'return bool(r.exists(f"sales:{day}"))'),
        ('f"sales:{day}"', 'r.setex(f"sales:{day}", 60, "{}")'),
        ('f"sales:{day}"', 'tell("sales:" + day)'),
        ('f"sales:{day}"', "other_cache.delete_pattern(day)"),
        ('f"sales:{day}"', "r.flushdb()"),
        ('f"sales:{day}"', "for key in r.scan_iter(day): r.delete(key)"),
        ("KEY % day", "r.set(KEY % day, 1)"),
        ("KEY % day", "r.exists(KEY % day)"),
        ("day_key(day)", "r.set(day_key(day), 1)"),
        ('f"s:{day}"', 'r.set(f"s:{day}", 1)'),
        ('f"s:{day}"', 'r.exists("s:" + day)'),
    ],
)
def test_a_key_that_its_own_file_uses_elsewhere_stays(key: str, other: str) -> None:
    text = HEAD + FILL.replace('f"sales:{day}"', key) + f"def more(day: str):\n    {other}\n"
    assert "with fill_lock(" in rewritten(text, "SG201")


@pytest.mark.parametrize("other", ['r.set(f"orders:{day}", 1)', "rows.clear()", 'r.exists("orders")'])
def test_other_keys_are_other_keys(other: str) -> None:
    text = HEAD + FILL + f"def more(day: str):\n    {other}\n"
    assert "@locked_cache(" in rewritten(text, "SG201")
