"""A helper that fills a cache with what it is given is followed to its file, and its uses are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from stampede_guard.audit import audit

HELPER = """
from django.core.cache import cache

def get_or_run(key, load, *args):
    {around}found = cache.get(key)
    if found is not None:
        return found
    found = load(*args)
    cache.set(key, found, 60)
    return found

def get_short_or_run(key, load, *args):
    return get_or_run(f"short:{{key}}", load, *args)

def cached_result(load, key):
    return get_or_run(key, load)

def get_or_default(key, default):
    return cache.get(key) or default
"""
OPEN = HELPER.format(around="")
LOCKED = HELPER.format(around="if not redis.setnx('x', 1): return\n    ")
LOCKED_BELOW = """
from django.core.cache import cache

def under_lock(key, load):
    with cache.lock(key):
        return load()

def get_or_run(key, load):
    found = cache.get(key)
    if found is None:
        found = under_lock(key, load=load) or load()
        cache.set(key, found, 60)
    return found
"""
BEGIN = """from keeping import cached_result, get_or_run, get_short_or_run
import keeping
from rates import ask, ask as _ask
#cache
"""


def found(folder: Path, helper: str, text: str) -> list[tuple[str, str]]:
    (folder / "keeping.py").write_text(helper, "utf-8")
    (folder / "rates.py").write_text("def ask(day):\n    return requests.get(ADDRESS).json()\n", "utf-8")
    (folder / "views.py").write_text(BEGIN + text, "utf-8")
    return [(f.code, f.function) for f in audit([str(folder / "views.py")]).findings]


@pytest.mark.parametrize(
    "use",
    [
        "def rates(day):\n    return get_or_run(day, ask, day)\n",
        "def rates(day):\n    return get_or_run(day, lambda: requests.get(ADDRESS).json())\n",
        "def rates(day):\n    return keeping.get_or_run(day, ask, day)\n",
        "def rates(day):\n    return get_short_or_run(day, load=ask)\n",
        "def rates(day):\n    return get_or_run(day, _ask, day)\n",
        "def rates(day):\n    def made():\n        return ask(day)\n    return get_or_run(day, made)\n",
        "def rates(day):\n    return cached_result(ask, day)\n",
        "def rates(day):\n    def made():\n        return ask(day)\n    return get_or_run(day, made)\n"
        "def names():\n    def made():\n        pass\n",
        "class V:\n    def made(self):\n        return ask(1)\n"
        "    def rates(self):\n        return get_or_run(1, self.made)\n",
    ],
)
def test_a_use_of_an_unlocked_helper_is_found(tmp_path: Path, use: str) -> None:
    said = found(tmp_path, OPEN, use)
    assert [code for code, _function in said] == ["SG202"] and said[0][1].endswith("rates")


@pytest.mark.parametrize(
    ("helper", "use"),
    [
        (LOCKED, "def rates(day):\n    return get_or_run(day, ask, day)\n"),
        (LOCKED, "def rates(day):\n    return get_short_or_run(day, ask)\n"),
        (OPEN, "def rates(day):\n    return get_or_run(day, DEFAULT)\n"),
        (OPEN, "def rates(day, load):\n    return get_or_run(day, load)\n"),  # its callers decide
        (OPEN, "def rates(day):\n    return keeping.get_or_default(day, ask)\n"),
        ("", "def rates(day):\n    return get_or_run(day, ask, day)\n"),
        (LOCKED_BELOW, "def rates(day):\n    return get_or_run(day, load=ask)\n"),
        # Functions that read, store or delete for the helper compute nothing.
        (
            OPEN,
            "def rates(day):\n    def made():\n        return cache.get(day)\n    return get_or_run(day, made)\n",
        ),
        (
            OPEN,
            "def rates(day):\n    def made():\n        cache.delete(day)\n    return get_or_run(day, made)\n",
        ),
    ],
)
def test_a_helper_with_a_lock_or_without_a_computation_is_silent(
    tmp_path: Path, helper: str, use: str
) -> None:
    assert found(tmp_path, helper, use) == []


def test_a_package_beside_this_one_is_followed(tmp_path: Path) -> None:
    (tmp_path / "common" / "common").mkdir(parents=True)
    (tmp_path / "shop" / "shop").mkdir(parents=True)
    (tmp_path / "common" / "common" / "keeping.py").write_text(OPEN, "utf-8")
    use = "from common.keeping import get_or_run\ndef rates(day):\n    return get_or_run(day, lambda: ask(day))\n"
    (tmp_path / "shop" / "shop" / "rates.py").write_text(f"{use}#cache\n", "utf-8")
    (finding,) = audit([str(tmp_path / "shop" / "shop" / "rates.py")]).findings
    assert (finding.code, finding.function) == ("SG202", "rates")
