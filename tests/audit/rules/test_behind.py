"""Heavy functions behind the project's own cache decorator are named, wherever it is defined."""

from __future__ import annotations

from pathlib import Path

import pytest

from stampede_guard.audit import audit

DECORATOR = """
from django.core.cache import cache

def cached_view(timeout):
    return _cached(timeout)

def _cached(timeout):
    def decorate(function):
        def wrapper(request, *args):
            key = request.path
            {around}found = cache.get(key)
            if found is not None:
                return found
            made = function(request, *args)
            cache.set(key, made, timeout)
            return made
        return wrapper
    return decorate
"""
OPEN = DECORATOR.format(around="")
LOCKED = DECORATOR.format(around="lock = redis.lock(key)\n            with lock: pass\n            ")
THROUGH = """
from django.views.decorators.cache import cache_page

def cached_view(timeout):
    def decorate(function):
        def wrapper(request, *args):
            return cache_page(timeout)(function)(request, *args)
        return wrapper
    return decorate
"""
NO_CACHE = (
    "def cached_view(timeout):\n    def decorate(function):\n        return function\n    return decorate\n"
)
HEAVY = "def totals(request):\n    return requests.get(ADDRESS).json()\n"
LIGHT = "def title(request):\n    return TITLE\n"


def uses(folder: Path, **files: str) -> list[str]:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    return [f.function for f in audit([str(folder / "views.py")]).findings if "behind" in f.message]


@pytest.mark.parametrize(
    ("decorator", "used"),
    [
        (OPEN, "@cached_view(60)\n"),
        (OPEN, "@method_decorator(cached_view(60))\n"),
        (THROUGH, "@cached_view(60)\n"),
    ],
)
def test_a_heavy_function_behind_an_unlocked_decorator_is_found(
    tmp_path: Path, decorator: str, used: str
) -> None:
    begin = "from keeping import cached_view\nfrom django.utils.decorators import method_decorator\n"
    text = f"{begin}\n{used}{HEAVY}\n{used}{LIGHT}"
    assert uses(tmp_path, keeping=decorator, views=text) == ["totals"]


def test_it_is_found_in_the_decorators_own_file(tmp_path: Path) -> None:
    assert uses(tmp_path, views=f"{OPEN}\n@cached_view(60)\n{HEAVY}") == ["totals"]


@pytest.mark.parametrize("decorator", [LOCKED, NO_CACHE])
def test_a_decorator_with_a_lock_or_without_a_cache_is_silent(tmp_path: Path, decorator: str) -> None:
    begin = "from keeping import cached_view\n"
    assert uses(tmp_path, keeping=decorator, views=f"{begin}\n@cached_view(60)\n{HEAVY}") == []


OBJECT = f"{OPEN.replace('def cached_view(timeout)', 'def cached_view(self, timeout)')}"
STORE = (
    "from django.core.cache import cache\n\nclass Store:\n"
    + "\n".join(f"    {line}" for line in OBJECT.splitlines()[3:6])
    + "\n"
    + "\n".join(OBJECT.splitlines()[6:])
    + "\nstore = Store()\n"
)
CLASS = """
from django.core.cache import cache

class cached_view:
    def __init__(self, timeout):
        self.timeout = timeout

    def __call__(self, function):
        def wrapper(request, *args):
            key = request.path
            {around}found = cache.get(key)
            if found is not None:
                return found
            made = function(request, *args)
            cache.set(key, made, self.timeout)
            return made
        return wrapper
"""
INSTEAD = """
from django.core.cache import cache

class cached_view:
    def __init__(self, function):
        self.function = function

    def __call__(self, request, *args):
        {around}found = cache.get(request.path)
        if found is None:
            found = self.function(request, *args)
            cache.set(request.path, found, 60)
        return found
"""
FLASK = (
    "from shop import cache\n\ndef cached_view(timeout):\n    return cache.cached(timeout, key_prefix=key)\n"
)
PASSED = OPEN.replace("key = request.path", "cache = args[0].get('cache')").replace("*args)", "**args)", 1)
PASSED = PASSED.replace("args[0].get", "args.get")
CLAIM = "lock = redis.lock('x')\n            with lock: pass\n            "


@pytest.mark.parametrize(
    ("importing", "decorator", "used", "found"),
    [
        ("import keeping", OPEN, "@keeping.cached_view(60)\n", ["totals"]),
        ("import keeping as kept", OPEN, "@kept.cached_view(60)\n", ["totals"]),
        ("from passing import cached_view", OPEN, "@cached_view(60)\n", ["totals"]),
        ("from passing import kept_view_cache", OPEN, "@kept_view_cache(60)\n", ["totals"]),
        ("from keeping import store", STORE, "@store.cached_view(60)\n", ["totals"]),
        ("from keeping import cached_view", CLASS.format(around=""), "@cached_view(60)\n", ["totals"]),
        ("from keeping import cached_view", INSTEAD.format(around=""), "@cached_view\n", ["totals"]),
        ("from keeping import cached_view", FLASK, "@cached_view(60)\n", ["totals"]),
        ("import keeping", LOCKED, "@keeping.cached_view(60)\n", []),
        ("from passing import cached_view", LOCKED, "@cached_view(60)\n", []),
        ("from keeping import cached_view", CLASS.format(around=CLAIM), "@cached_view(60)\n", []),
        (
            "from keeping import cached_view",
            INSTEAD.format(around="redis.setnx('x', 1)\n        "),
            "@cached_view\n",
            [],
        ),
        ("from keeping import cached_view", PASSED, "@cached_view(60)\n", []),
        ("from keeping import other_cache", OPEN, "@other_cache.cached_view(60)\n", []),
    ],
)
def test_the_decorator_is_followed_through_files_classes_and_objects(
    tmp_path: Path, importing: str, decorator: str, used: str, found: list[str]
) -> None:
    passing = "from keeping import cached_view\nfrom keeping import cached_view as kept_view_cache\n"
    text = f"{importing}\n\n{used}{HEAVY}\n{used}{LIGHT}"
    assert uses(tmp_path, keeping=decorator, passing=passing, views=text) == found
