"""Tags while the store, or a part of it, is away."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.core.scripts import Granted
from stampede_guard.core.tags import sealed
from stampede_guard.engine.tags.templates import tag_names
from stampede_guard.engine.tags.versions import MOST_MARKS, LocalTags
from stampede_guard.values.codec import codec_for
from tests.support.encryption import Rot
from tests.support.fixtures import guards_on
from tests.support.gate import until
from tests.support.guards import Guards
from tests.support.inside import pending_of
from tests.support.source import KEY, TAGS, Source

# On the cluster the tags of a test live on all nodes.
guards = guards_on("memory", "valkey", "cluster")


@pytest.fixture
def source() -> Source:
    return Source()


class _Away:
    """A session some of whose servers cannot be reached. It says so itself, so nothing is sent there."""

    away = True

    def __init__(self, session: Any, where: Callable[[str], bool]) -> None:
        self._session = session
        self.away_for = where

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


@contextlib.contextmanager
def away(guard: StampedeGuard, *, where: Callable[[str], bool] = lambda name: True) -> Iterator[None]:
    runtime: Any = guard.engine.runtime()
    session = runtime.session
    runtime.session = pending_of(runtime)._session = _Away(session, where)
    runtime.breaker_changed(away=True)
    try:
        yield
    finally:
        runtime.session = pending_of(runtime)._session = session
        runtime.breaker_changed(away=False)


async def test_an_invalidation_while_the_store_is_away_is_pending_holds_here_and_is_applied_on_return(
    guards: Guards, source: Source
) -> None:
    here, there = guards.guard(), guards.guard()
    assert [await source.ask(here), await source.ask(there)] == [1, 1]
    with away(here):
        assert await source.ask(here) == 1, "the last value this process saw"
        source.number = 2
        assert await here.invalidate_tag("project:7") == "pending"
        assert await source.ask(here) == 2
        assert await source.ask(here) == 2
        assert source.computed == 2, "what was computed since is kept meanwhile"
    await until(lambda: not here.engine.runtime().away)
    assert [await source.ask(there), await source.ask(here)] == [2, 2]


async def test_last_values_count_again_after_the_store_has_told_their_new_versions(
    guards: Guards, source: Source
) -> None:
    here, there = guards.guard(), guards.guard()
    await source.ask(here)
    await source.write(here)
    assert await source.ask(here) == 2
    with away(here):
        assert await source.ask(here) == 2
        assert source.computed == 2
    await source.write(there)
    assert await source.ask(here) == 3
    with away(here):
        assert await source.ask(here) == 3
    assert source.computed == 3


async def test_without_its_tag_s_node_an_entry_is_served_as_without_the_store(
    guards: Guards, source: Source
) -> None:
    guard = guards.guard()
    await source.ask(guard)
    with away(guard, where=lambda name: name.endswith("#all")):
        assert await source.ask(guard) == 1
        source.number = 2
        assert await guard.invalidate_tag("project:7") == "done"
        assert await source.ask(guard) == 2
        source.number = 3
        assert await guard.invalidate_tag("all") == "pending"
        assert await source.ask(guard) == 3
    await until(lambda: not guard.engine.runtime().away)
    assert await source.ask(guard) == 3


async def test_without_its_tag_s_node_an_entry_is_not_refreshed_early(guards: Guards, source: Source) -> None:
    guard = guards.guard(early_beta=1.0)
    runtime, name = guard.engine.runtime(), guards.name(KEY)
    session, policy = runtime.session, guard.policy
    tags = tag_names(guard.prefix, sorted(TAGS))
    grant = await session.acquire(name, flight="given", policy=policy)
    assert isinstance(grant, Granted)
    body = sealed(codec_for(Any).encode(1), [await session.ensure_tag(tag, policy=policy) for tag in tags])
    assert await session.publish(
        name, flight="given", grant=grant, outcome="value", body=body, policy=policy, took_ms=60_000
    )
    runtime.draw = lambda: 0.0  # type: ignore[method-assign]
    assert await source.ask(guard) == 1
    runtime.draw = lambda: 1 - 1e-12  # type: ignore[method-assign]
    with away(guard, where=lambda name: name.endswith("#all")):
        assert await source.ask(guard) == 1
        assert not runtime.flights, "nobody needs it yet, and every process would compute"
    await until(lambda: not runtime.away)
    source.number = 2
    assert await source.ask(guard) == 1
    await until(lambda: source.computed == 1 and not runtime.flights)


async def test_where_values_are_encrypted_tags_are_compared_all_the_same(
    valkey_url: str, namespace: str, source: Source
) -> None:
    encryption = Rot()
    here, there = (
        StampedeGuard.from_url(valkey_url, namespace=namespace, encryption=encryption) for _ in range(2)
    )
    async with here, there:
        assert [await source.ask(here), await source.ask(there), await source.ask(there)] == [1, 1, 1]
        await source.write(there)
        assert [await source.ask(here), await source.ask(there)] == [2, 2]
        assert source.computed == 2
        assert {key for key in encryption.decrypted if "#" in key} == set()


async def test_a_value_that_a_function_gives_a_long_life_has_its_tags_as_long(namespace: str) -> None:
    async with Guards("memory", namespace) as guards:
        guard, computed = guards.guard(ttl=10.0), 0

        async def compute() -> int:
            nonlocal computed
            computed += 1
            return computed

        async def call() -> int:
            return await guard.get_or_compute("k", compute, tags=("t",), ttl=lambda value: 86_400.0)

        assert await call() == 1
        guards.clock.advance(80_000.0)
        assert await call() == 1
        await guard.invalidate_tag("t")
        assert await call() == 2


def test_a_read_sent_before_an_invalidation_was_settled_says_nothing() -> None:
    cleared: list[None] = []
    known = LocalTags(lambda: cleared.append(None))
    before = known.moment
    known.mark("t")
    between = known.moment
    known.settle("t")
    own = known.versions(("t",))[0]
    for asked in (before, between):
        known.seen("t", b"o" * 16, asked=asked)
        assert known.versions(("t",)) == (own,)
    known.seen("t", b"n" * 16, asked=known.moment)
    assert known.versions(("t",)) == (b"n" * 16,)
    for number in range(MOST_MARKS):
        known.mark(str(number))
    assert len(known) <= MOST_MARKS and len(cleared) == 1
