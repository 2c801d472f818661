"""What becomes of a fill by hand: its key keeps its parts, and its callers get the answers that they got before."""

from __future__ import annotations

import pytest

from tests.audit.fixes.rewriting import rewritten

HEAD = """import json
import os

import redis

from shop import PREFIX as SHOP
from shop import db, g, today

r = redis.Redis()
VERSION = 3
DEPLOYMENT = os.environ.get("DEPLOYMENT", "staging")
tenant = "nobody"


def switch(name):
    global tenant
    tenant = name


"""
FILL = """def sales({parameters}) -> dict[str, str]:
    {before}key = {key}
    found = r.get(key)
    if found is not None:
        return json.loads(found)
    value = db.query(day)
    r.setex(key, 60, json.dumps(value))
    return value
"""


def of_key(key: str, parameters: str = "day: str", before: str = "") -> str:
    return HEAD + FILL.format(key=key, parameters=parameters, before=f"{before}\n    " if before else "")


@pytest.mark.parametrize(
    "key",
    [
        'f"sales:{tenant}:{day}"',
        'f"{DEPLOYMENT}:sales:{day}"',
        'f"{SHOP}:sales:{day}"',
        'f"sales:{VERSION}:{day}"',
        'f"sales:{day:.1f}"',
        'f"sales:{day!r}"',
        '"sales:{:.1f}".format(day)',
        '"sales:{0!r}".format(day)',
        # Whoever changes what is stored counts the version up.
        'f"v3:sales:{day}"',
        'f"sales_v3:{day}"',
        '"sales:v3:" + day',
        '"sales:version-3:{}".format(day)',
    ],
)
def test_a_key_with_more_than_unchanged_parameters_stays_as_it_was(key: str) -> None:
    assert f"@locked_cache(ttl=60, key=lambda day: {key})" in rewritten(of_key(key), "SG201")


@pytest.mark.parametrize(
    "key", ['f"sales:{day}"', '"sales:" + day', '"sales:{}".format(day)', '"sales:{0}".format(day)']
)
def test_a_key_of_unchanged_parameters_needs_no_code(key: str) -> None:
    assert "@locked_cache(ttl=60)\ndef sales(day: str)" in rewritten(of_key(key), "SG201")


@pytest.mark.parametrize(
    "before",
    [
        "day = day or today()",
        "day: str = day or today()",
        "day += g.shop",
        'key = "sales:"; key += g.shop',
        "for day in g.days: pass",
        "with g.day() as day: pass",
        "if day is None: day = today()",
        "[day := one for one in g.days]",
        "import day",
        "def day(): ...",
    ],
)
@pytest.mark.parametrize("key", ['f"sales:{day}"', 'f"sales:{day:.1f}"', 'f"sales:{day}:{key}"'])
def test_a_parameter_that_is_replaced_before_the_get_is_no_key(before: str, key: str) -> None:
    assert "locked_cache" not in rewritten(of_key(key, before=before), "SG201")


@pytest.mark.parametrize(
    ("hit", "stored", "after", "answer"),
    [
        ("json.loads(found)", "json.dumps(value)", 'value["welcome"] = day', "value"),
        ("json.loads(found)", "json.dumps(value)", "value.update(day=day)", "value"),
        ("json.loads(found)", "json.dumps(value)", "g.welcome(value)", "value"),
        ("json.loads(found)", "json.dumps(value)", 'value = {**value, "day": day}', "value"),
        ("json.loads(found)", "json.dumps(value)", "value |= {}", "value"),
        ("json.loads(found)", "json.dumps(value)", "del value['day']", "value"),
        ("json.loads(found)", "json.dumps(value)", "for row in value: row.clear()", "value"),
        ("json.loads(found)", "json.dumps(value)", "other = value; other.clear()", "value"),
        ("json.loads(found)", 'json.dumps({"n": len(value)})', "", "value"),
        ("json.loads(found)", "json.dumps([value])", "", "value"),
        ("json.loads(found)", "json.dumps(value)[:9]", "", "value"),
        ("json.loads(found)", "json.dumps(value)", "", "dict(value)"),
        ('{**json.loads(found), "cached": True}', "json.dumps(value)", "", "value"),
        ("json.loads(found) | {}", "json.dumps(value)", "", "value"),
        ('json.loads(found)["rows"]', "json.dumps(value)", "", "value"),
        ("[*json.loads(found)]", "json.dumps(value)", "", "value"),
        ("json.loads(found, object_hook=g.hook)", "json.dumps(value)", "", "value"),
        ("(json.loads(found), True)", "json.dumps(value)", "", "value"),
        ("json.loads(found) or {}", "json.dumps(value)", "", "value"),
        ("json.dumps(found)", "json.dumps(value)", "", "value"),
        ("found", "json.dumps(value)", "", "value"),
        ("json.loads(found)", "value", "", "value"),
        ("found.get(day)", "value", "", "value"),
    ],
)
def test_a_hit_and_a_miss_must_give_what_was_stored(hit: str, stored: str, after: str, answer: str) -> None:
    text = (
        of_key('f"sales:{day}"')
        .replace("json.loads(found)", hit)
        .replace("json.dumps(value)", stored)
        .replace("return value", f"{after}\n    return {answer}" if after else f"return {answer}")
    )
    assert "locked_cache" not in rewritten(text, "SG201")


@pytest.mark.parametrize(
    "stored",
    [
        "    payload = json.dumps(value)\n    value.clear()\n    r.setex(key, 60, payload)\n",
        "    payload = json.dumps(value)\n    payload = payload[1:]\n    r.setex(key, 60, payload)\n",
        "    payload = json.dumps(value)\n    payload += day\n    r.setex(key, 60, payload)\n",
        "    payload = json.dumps(value)\n    value = {}\n    r.setex(key, 60, payload)\n",
    ],
)
def test_nothing_changes_between_the_text_and_the_answer(stored: str) -> None:
    text = of_key('f"sales:{day}"').replace("    r.setex(key, 60, json.dumps(value))\n", stored)
    assert "locked_cache" not in rewritten(text, "SG201")


@pytest.mark.parametrize(
    ("hit", "stored", "after"),
    [
        ("json.loads(found)", "json.dumps(value, default=str)", ""),
        ("json.loads(found.decode())", "json.dumps(value).encode()", ""),
        ("dict(json.loads(found))", "json.dumps(value)", 'log.info("stored %s", day)'),
        ("found", "value", ""),
    ],
)
def test_forms_of_one_answer(hit: str, stored: str, after: str) -> None:
    text = (
        of_key('f"sales:{day}"')
        .replace("json.loads(found)", hit)
        .replace("json.dumps(value)", stored)
        .replace("    return value", f"    {after}\n    return value" if after else "    return value")
    )
    assert "@locked_cache(ttl=60)\ndef sales(day: str)" in rewritten(text, "SG201")


@pytest.mark.parametrize(
    "miss",
    [
        "        found = db.query(day)\n        r.setex(key, 60, json.dumps(found))\n",
        "        found = db.query(day)\n        r.setex(key, 60, found)\n        found = found[1:]\n",
        "        found = db.query(day)\n        r.setex(key, 60, found)\n        found.append(day)\n",
        "        found = db.query(day)\n        r.setex(key, 60, found[1:])\n",
    ],
)
def test_one_name_for_the_hit_and_the_miss(miss: str) -> None:
    text = (
        HEAD
        + f"""def sales(day: str) -> str:
    key = f"sales:{{day}}"
    found = r.get(key)
    if found is None:
{miss}    return found
"""
    )
    assert "locked_cache" not in rewritten(text, "SG201")


@pytest.mark.parametrize(
    ("key", "mended"),
    [
        ('f"{function.__name__}:{args}"', True),
        ('f"{function.__name__}:{hashlib.md5(str(args)).hexdigest()}"', True),
        ('f"{tenant}:{function.__name__}:{args}"', False),
        ('f"{g.tenant}:{function.__name__}:{args}"', False),
        ('f"{VERSION}:{function.__name__}:{args}"', False),
        ('f"v3:{function.__name__}:{args}"', False),
        ("made(tenant, args)", False),
    ],
)
def test_a_decorator_keeps_the_parts_of_its_key(key: str, mended: bool) -> None:
    text = (
        HEAD
        + f"""def cached(function):
    def wrapper(*args):
        key = {key}
        found = r.get(key)
        if found is not None:
            return json.loads(found)
        value = function(*args)
        r.setex(key, 60, json.dumps(value))
        return value

    return wrapper


@cached
def sales(day: str) -> int:
    return db.query(day)
"""
    )
    assert ("return locked_cache(ttl=60)(function)" in rewritten(text, "SG203")) == mended
