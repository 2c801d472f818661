"""The test cases: a file of the public suite http-tests/cache-tests, or the few of this project."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

from stampede_guard import CacheRoute

__all__ = ["OF_OWN", "OF_SOME", "OPTIONS", "OWN", "Case", "Cases", "load", "of_own"]

ROOT = Path(__file__).resolve().parents[3]
OWN = Path(__file__).with_name("own.json")
BESIDE = ROOT.parent / "shared" / "http-cache-tests" / "public.json"
VARIABLE = "HTTP_CACHE_TESTS"
OPTIONS: dict[str, dict[str, Any]] = {
    "safe defaults": {},
    "all the RFCs allow": {"heuristics": True, "set_cookie": "store", "stale_if_error": 60},
}
"""Of the middleware: the suite asks for everything that the RFCs allow, and the defaults store less."""


OF_OWN: dict[str, Any] = {
    "private_to": "header:Test-User",
    "exclude": ("/case/*/*/excluded",),
    "routes": [CacheRoute("/case/*/*/keyed", ttl=60, key_cookies=("lang",))],
}
"""Of the middleware, beside those, for the project's own cases."""
OF_SOME: dict[str, dict[str, Any]] = {
    "anonymous-": {"anonymous_only": True},
    "only-": {"only": ("/case/*/*/only",)},
}
"""In place of these, for cases whose names begin so."""


class Case(NamedTuple):
    id: str
    kind: Literal["required", "optimal", "check"]
    depends_on: tuple[str, ...]
    requests: tuple[dict[str, Any], ...]


class Cases(NamedTuple):
    """`public`: of the public suite."""

    path: Path
    public: bool
    all: dict[str, Case]


def load() -> Cases:
    """What $HTTP_CACHE_TESTS names, which must exist; else the public suite beside this repository; else our own."""
    named = os.environ.get(VARIABLE)
    if named:
        path = Path(named) if Path(named).is_absolute() else ROOT / named
        if not path.is_file():
            raise FileNotFoundError(f"${VARIABLE}={named}: there is no such file ({path})")
        return Cases(path, True, read(path))
    if BESIDE.is_file():
        return Cases(BESIDE, True, read(BESIDE))
    return Cases(OWN, False, read(OWN))


def of_own(name: str) -> dict[str, Any]:
    """The options for one of the project's own cases."""
    return next((options for begin, options in OF_SOME.items() if name.startswith(begin)), OF_OWN)


def read(path: Path) -> dict[str, Case]:
    found: dict[str, Case] = {}
    for group in json.loads(path.read_text("utf-8")):
        for test in group["tests"]:
            kind = test.get("kind", "required")
            found[test["id"]] = Case(
                test["id"], kind, tuple(test.get("depends_on", ())), tuple(test["requests"])
            )
    return found
