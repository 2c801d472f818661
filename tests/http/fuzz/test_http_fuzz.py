"""The cache keeps its laws in every seed: see `judge.py` here. `STAMPEDE_HTTP_SEEDS`: how many seeds.

A rule of the cache is taken away at a time, and the judge must notice.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from msgspec.structs import replace

from stampede_guard.http import answer, judging, posted
from stampede_guard.http.groups import Groups
from stampede_guard.http.middleware import StampedeMiddleware
from stampede_guard.http.parts import assembling
from stampede_guard.http.requests import choosing, entries
from stampede_guard.http.requests.stored import StoredResponse
from stampede_guard.http.spec import reuse
from stampede_guard.http.spec.message import Response
from stampede_guard.http.spec.reuse import Situation
from tests.http.fuzz.judge import judged

SEEDS = int(os.environ.get("STAMPEDE_HTTP_SEEDS", "60"))
MOST = 400
"""Seeds in which a missing rule must show."""


def test_every_seed_keeps_the_laws_of_a_shared_cache() -> None:
    hits = 0
    for seed in range(SEEDS):
        site, wrong = judged(seed)
        assert not wrong, f"python -m tests.http.fuzz {seed}: {wrong[0]}"
        hits += sum("; hit" in visit.fields.get("cache-status", "") for visit in site.visits)
    assert hits


async def _holds(*_: Any, **__: Any) -> bool:
    return True


def _shifted(*given: Any) -> Response | None:
    found = assembling.cut(*given)
    return found and replace(found, body=found.body[1:] + b".")


MISSING: dict[str, tuple[Any, str, Any, str]] = {
    "the user in the key": (choosing, "user_digest", lambda *_: "one", "made for"),
    "the body of a QUERY in the key": (posted, "question", lambda *_, **__: "one", "another question"),
    "variants": (StoredResponse, "is_for", lambda *_: True, "another"),
    "lifetimes": (StoredResponse, "serves_all", lambda *_: True, "s old, where"),
    "groups": (Groups, "hold", _holds, "from before the invalidation"),
    "purges": (StampedeMiddleware, "purge", _holds, "from before the invalidation"),
    "conditions": (answer, "is_not_modified", lambda *_, **__: True, "304, but"),
    "If-Range": (answer, "if_range_holds", lambda *_, **__: True, "206 of another version"),
    "No-Vary-Search": (entries, "simplified", lambda *_: "", "another question"),
    "the tag of a path": (
        judging,
        "tag_of_path",
        lambda path: f"search:{id(path)}",
        "from before the invalidation",
    ),
    "must-revalidate": (Situation, "never_stale", False, "s old, where"),
    "min-fresh": (reuse, "_verdict", lambda *_: "stale-while-revalidate", "s left"),
    "the bytes of a range": (answer, "cut", _shifted, "not the wanted bytes"),
}


@pytest.mark.parametrize("rule", MISSING)
def test_without_a_rule_the_judge_finds_a_broken_law(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, other, law = MISSING[rule]
    monkeypatch.setattr(place, name, other)
    # Begin with the seed that showed the rarest last.
    seeds = [*([596] if rule == "must-revalidate" else []), *range(MOST)]
    assert any(law in wrong for seed in seeds for wrong in judged(seed)[1])
