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
