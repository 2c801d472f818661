"""Leases in memory: what is there beside the rules themselves."""

from __future__ import annotations

from stampede_guard.leases.memory import ROWS_BEFORE_PRUNING, MemoryBackend, Rows
from stampede_guard.leases.words import Ask, Granted, Owner
from stampede_guard.testing.clock import FakeClock

ME = Owner(process="me")


async def token_of(backend: MemoryBackend, name: str, holder: str) -> int:
    answer = await backend.acquire(Ask(name=name, holder=holder, owner=ME, lease_ttl=10), timeout=1)
    assert isinstance(answer, Granted)
    return answer.token


async def test_back_ends_over_the_same_rows_see_each_other_and_wake_each_other() -> None:
    rows = Rows(FakeClock())
    one, other = MemoryBackend(rows), MemoryBackend(rows)
    freed: list[str] = []
    other.on_freed(freed.append)
    token = await token_of(one, "n", "a")
    assert await other.check("n", holder="a", token=token, timeout=1)
    await one.release("n", holder="a", token=token, at_least_for=0, timeout=1)
    assert freed == ["n"]
    await other.aclose()
    await token_of(one, "n", "b")
    await one.leave("n", holder="b", timeout=1)
    assert freed == ["n"]


async def test_names_that_are_over_are_forgotten_but_not_how_far_their_tokens_were() -> None:
    clock = FakeClock(0.0)
    backend = MemoryBackend(Rows(clock))
    tokens = []
    for number in range(3 * ROWS_BEFORE_PRUNING):
        tokens.append(await token_of(backend, "often", str(number)))
        await backend.leave("often", holder=str(number), timeout=1)
        await token_of(backend, f"once:{number}", "a")
        await backend.leave(f"once:{number}", holder="a", timeout=1)
    assert len(backend.rows.names()) <= ROWS_BEFORE_PRUNING
    assert tokens == sorted(set(tokens))


async def test_operators_deeds_are_kept_and_shown_newest_first() -> None:
    backend = MemoryBackend(Rows(FakeClock()))
    for name in ("a:1", "b:1", "a:2"):
        await backend.force(name, token=await token_of(backend, name, "h"), by="eve", now=True, timeout=1)
    assert [audit.name for audit in await backend.audits("a:", limit=9, timeout=1)] == ["a:2", "a:1"]
    views = await backend.views("a:", limit=1, timeout=1)
    assert [(view.name, view.held) for view in views] == [("a:1", False)]
    assert await backend.show("never", timeout=1) is None
