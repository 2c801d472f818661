"""Tags keep their promise in every interleaving, and each rule of `core.tags` is needed for it.

Beside what `test_search` checks: nobody who began after an invalidation of the tag had returned is served a value from
before it; computations never exceed 1 + invalidations + what was broken; nobody waits for ever.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stampede_guard.core import tags
from stampede_guard.core.entry import EMPTY, Entry
from stampede_guard.policy import Policy
from tests.core.search import Result, Search
from tests.core.tagged import Rules, TagModel
from tests.core.world import Setup

VERSIONS = st.lists(st.binary(min_size=tags.SIZE, max_size=tags.SIZE), max_size=5)


def only(*kinds: str) -> frozenset[str]:
    return frozenset(kinds)


QUICK = (
    Setup(callers=3, invalidations=1),
    Setup(invalidations=2),
    Setup(invalidations=1, faults=1, kinds=only("evict_tag", "evict_value", "evict_record", "lapse")),
    Setup(invalidations=1, faults=1, kinds=only("crash", "gap", "deaf")),
    Setup(callers=3, faults=1, kinds=only("evict_tag")),
    Setup(placement=(0, 1), invalidations=1, refreshes=1),
    Setup(invalidations=1, policy=Policy(ttl=1000.0, error_ttl=1000.0, inline_bytes=0)),
)
DEEP = (
    Setup(invalidations=1, faults=1, kinds=only("lose", "restart")),
    Setup(invalidations=1, refreshes=1),
    Setup(callers=3, invalidations=1, faults=1, kinds=only("evict_tag", "lapse")),
    Setup(callers=3, invalidations=2),
)
SETUPS = QUICK + (DEEP if os.environ.get("STAMPEDE_SEARCH") == "deep" else ())


def search(setup: Setup, rules: Rules | None = None) -> Result:
    result = Search(setup, model=TagModel(setup, rules=rules)).run()
    print(result)
    return result


@pytest.mark.parametrize("setup", SETUPS, ids=str)
def test_every_interleaving_keeps_the_promise_of_tags(setup: Setup) -> None:
    result = search(setup)
    assert result.counterexample is None, result.counterexample


def _absent_is_unchanged(body: bytes, now: Any) -> bool:
    return now == [None] or tags.is_current(body, now)


MUTATIONS = {
    "tags read after the computation": Rules(ensures_first=False),
    "absent counts as unchanged": Rules(is_current=_absent_is_unchanged),
    "not read again at publish": Rules(reads_again_at_publish=False),
    "heard value not compared": Rules(holds_heard_against_tags=False),
    "found value not compared": Rules(holds_found_against_tags=False),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_search_notices_when_a_rule_of_tags_is_left_out(name: str) -> None:
    result = search(Setup(callers=3, invalidations=1), MUTATIONS[name])
    assert result.counterexample is not None, f"{name} was not noticed in {result}"
    assert "was served version" in result.counterexample.splitlines()[-1]


# --- values and versions --------------------------------------------------------------------------


@given(body=st.binary(), versions=VERSIONS)
def test_what_is_sealed_is_opened_again_and_tells_its_versions(body: bytes, versions: list[bytes]) -> None:
    sealed = tags.sealed(body, ())
    for again in ([], versions, versions[:1], versions):
        sealed = tags.resealed(sealed, again)
        assert tags.opened(sealed) == body
        assert tags.versions_in(sealed) == tuple(again)


@given(body=st.binary(max_size=40))
def test_only_a_sealed_body_is_given_other_versions(body: bytes) -> None:
    """MessagePack behind one 0xC1 is a value of records (`values.codec.records`). It never has a second one."""
    for stored in (body, b"\xc1" + body):
        if stored[:2] != b"\xc1\xc1":
            assert tags.opened(stored) == stored
            with pytest.raises(ValueError, match="only a body with versions"):
                tags.resealed(stored, ())


@given(data=st.binary(max_size=40))
def test_damaged_bytes_are_no_error(data: bytes) -> None:
    for stored in (data, b"\xc1" + data, b"\xc1\xc1" + data):
        versions = tags.versions_in(stored)
        assert versions is None or all(len(version) == tags.SIZE for version in versions)
        tags.opened(stored)


def test_only_equal_versions_in_the_same_order_are_current() -> None:
    one, two = b"1" * tags.SIZE, b"2" * tags.SIZE
    body = tags.sealed(b"x", (one, two))
    assert tags.is_current(body, [one, two])
    for now in ([one], [two, one], [one, None], [None, None], [one, two, two], []):
        assert not tags.is_current(body, now)
    assert not tags.is_current(b"x", []), "stored by one who knew of no tags"
    assert not tags.is_current(tags.sealed(b"x", (tags.BLANK,)), [None])


def test_a_version_is_made_once_and_lives_longer_each_time() -> None:
    entry, made = tags.ensure(EMPTY, b"a" * tags.SIZE, now_us=0, ms=1000)
    entry, again = tags.ensure(entry, b"b" * tags.SIZE, now_us=500_000, ms=1000)
    assert made == again == b"a" * tags.SIZE
    assert entry.value is not None and entry.value.expires_us == 1_500_000
    shorter, _ = tags.ensure(entry, b"b" * tags.SIZE, now_us=600_000, ms=1)
    assert shorter == entry
    assert tags.ensure(entry, b"b" * tags.SIZE, now_us=2_000_000, ms=1)[1] == b"b" * tags.SIZE
    assert tags.drop(entry) == Entry()
