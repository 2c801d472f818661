"""A fix uses a name only if it is sure what the name means where the fix writes it."""

from __future__ import annotations

import pytest

from tests.audit.fixes.rewriting import rewritten, told

RATES = "@cache(ttl={ttl})\nasync def rates(currency: str) -> int:\n    return 1\n"


def of(head: str, ttl: str = "60", after: str = "") -> str:
    return f"from cashews import cache\n\n{head}\n\n\n{RATES.format(ttl=ttl)}{after}"


@pytest.mark.parametrize(
    "head",
    [
        'if DEBUG:\n    TTL = "1s"\nelse:\n    TTL = "1h"',
        'TTL = "1s"\nTTL = "1h"',
        "TTL = 1\nTTL += 9",
        "TTL = 1\nfor TTL in (1, 2): pass",
        "TTL = 1\nwith times() as TTL: pass",
        "TTL = 1\ntry:\n    from settings import TTL\nexcept ImportError:\n    pass",
        "TTL = 1\ndef longer():\n    global TTL\n    TTL = 9",
        "try:\n    TTL = 1\nexcept NameError:\n    TTL = 2",
        "TTL, OTHER = 1, 2",
        "if (TTL := 1): pass",
        "def TTL(): ...\nTTL = 1",
        "if DEBUG: TTL = 1",
    ],
)
def test_a_lifetime_with_several_values_is_left_to_the_reader(head: str) -> None:
    [finding] = told(of(head, "TTL"), "SG103")
    assert finding.fix == "unsafe" and "TTL must be a number of seconds" in finding.fix_reasons
    assert "@locked_cache(ttl=TTL)" in rewritten(of(head, "TTL"), "SG103")


@pytest.mark.parametrize(
    ("head", "ttl"),
    [('TTL = "1h"', "3600"), ("TTL = 60", "TTL"), ("TTL: int = 60", "TTL")],
)
def test_a_lifetime_with_one_value_is_taken_over(head: str, ttl: str) -> None:
    assert f"@locked_cache(ttl={ttl})" in rewritten(of(head, "TTL"), "SG103", unsafe=False)


GUARD = 'StampedeGuard.from_url("memory://")'
IMPORT = "from stampede_guard import StampedeGuard\n"


@pytest.mark.parametrize(
    ("head", "after"),
    [
        ("", "\n\ndef start():\n    import stampede_guard\n"),
        ("", "\n\ndef start():\n    from stampede_guard import locked_cache as kept\n"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import stampede_guard", ""),
        (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from stampede_guard import locked_cache",
            "",
        ),
        (f"{IMPORT}if __name__ == '__main__':\n    guard = {GUARD}", ""),
        (f"{IMPORT}if DEBUG:\n    guard = None\nelse:\n    guard = {GUARD}", ""),
        (f"{IMPORT}guard = {GUARD}\nguard = None", ""),
        (f"{IMPORT}guard = {GUARD}\ndef end():\n    global guard\n    guard = None", ""),
        ("", "\n\nimport stampede_guard\n"),
    ],
)
def test_a_name_that_the_decorator_may_not_see_is_not_used(head: str, after: str) -> None:
    text = rewritten(of(head, after=after), "SG103")
    assert "\n@locked_cache(ttl=60)" in text
    top = [line for line in text.splitlines() if line.startswith("from stampede_guard import ")]
    assert any("locked_cache" in line for line in top)


@pytest.mark.parametrize(
    ("head", "written"),
    [
        ("import stampede_guard", "@stampede_guard.locked_cache(ttl=60)"),
        ("from stampede_guard import locked_cache as kept", "@kept(ttl=60)"),
        (f"{IMPORT}guard = {GUARD}", "@guard.locked_cache(ttl=60)"),
    ],
)
def test_a_name_that_the_decorator_sees_is_used(head: str, written: str) -> None:
    assert written in rewritten(of(head), "SG103")


@pytest.mark.parametrize(
    "fill_import",
    [
        "def start():\n    import stampede_guard",
        "if DEBUG:\n    from stampede_guard import fill_lock as kept",
    ],
)
def test_a_lock_is_imported_where_its_name_may_be_unknown(fill_import: str) -> None:
    text = f"""import redis

r = redis.Redis()


{fill_import}


def sales(day):
    found = r.get(f"sales:{{day}}")
    if found is not None:
        return found
    value = count(day)
    r.setex(f"sales:{{day}}", 60, value)
    return value
"""
    after = rewritten(text, "SG201")
    assert "with fill_lock(" in after and "\nfrom stampede_guard import fill_lock" in after


@pytest.mark.parametrize(
    "after",
    [
        "\n\nasync def show():\n    return await rates('a', cache_read=False)\n",
        "\n\nasync def show():\n    return await rates('a', aiocache_wait_for_write=False)\n",
        "\n\nrefresh = partial(rates, cache_read=False)\n",
        "\n\nasync def show(call=rates):\n    return await call('a', cache_write=False)\n",
    ],
)
def test_what_only_the_old_decorator_understands_keeps_it(after: str) -> None:
    text = of("", after=after).replace("from cashews import cache", "from aiocache import cached as cache")
    assert [finding.no_fix[:13] for finding in told(text, "SG102")] == ["the file uses"]


@pytest.mark.parametrize(
    "init",
    [
        "def start(seconds):\n    FastAPICache.init(b, expire=seconds)",
        "def start():\n    FastAPICache.init(b, expire=1)\n\n\ndef again():\n    FastAPICache.init(b, expire=2)",
    ],
)
def test_a_default_lifetime_is_used_only_where_it_is_known(init: str) -> None:
    text = f"""from fastapi_cache import FastAPICache
from fastapi_cache.decorator import cache

{init}


@cache()
async def rates(currency: str) -> int:
    return 1
"""
    assert "@locked_cache(ttl=300)" in rewritten(text, "SG101")


def test_a_record_is_no_key_if_a_field_that_it_inherits_is_none() -> None:
    records = """from dataclasses import dataclass

class Tenant: pass

@dataclass
class Base:
    tenant: {kind}

@dataclass
class Query(Base):
    currency: str
"""
    for kind, safe in (("Tenant", False), ("str", True)):
        text = of(records.format(kind=kind)).replace("currency: str)", "query: Query)")
        assert [finding.fix == "safe" for finding in told(text, "SG103")] == [safe]
