"""An invalidation waits here while its server answers: what others invalidate meanwhile holds as well."""

from __future__ import annotations

import asyncio

import pytest

from stampede_guard import Policy, StampedeGuard
from stampede_guard.errors import StoreRefused
from stampede_guard.testing.faults.faulty import FaultyStore
from tests.support.gate import Gate, soon, until


class Source:
    def __init__(self) -> None:
        self.number = 1
        self.computed = 0
        self.gate: Gate | None = None

    async def read(self) -> int:
        self.computed += 1
        seen, gate = self.number, self.gate
        if gate is not None:
            await gate.hold()
        return seen


def refusing(guard: StampedeGuard) -> None:
    """This process's invalidations are refused for now, and so are its leases; its reads are answered."""
    session = guard.engine.runtime().session

    async def refused(*_: object, **__: object) -> object:
        raise StoreRefused("NOREPLICAS", may_pass=True)

    session.invalidate = session.acquire = session.drop_tag = refused  # type: ignore[method-assign,assignment]


@pytest.mark.parametrize("theirs", ["entry", "tag"])
@pytest.mark.parametrize("under_way", [False, True], ids=["kept", "being computed"])
async def test_a_done_invalidation_of_another_process_holds_while_an_own_one_waits(
    theirs: str, under_way: bool
) -> None:
    store, source = FaultyStore(), Source()
    policy = Policy(ttl=300.0)
    here, there = (StampedeGuard(store, namespace="w", policy=policy) for _ in range(2))
    async with here, there:
        ask = lambda: here.get_or_compute("k", source.read, tags=["t"])  # noqa: E731
        assert await ask() == 1
        refusing(here)
        source.number = 2
        assert await here.invalidate("k") == "pending"
        source.gate = gate = Gate() if under_way else None
        early = asyncio.ensure_future(ask())
        if gate is not None:
            await gate.arrival()
        else:
            assert await soon(early) == 2
        source.number, source.gate = 3, None
        assert (
            await there.invalidate("k") if theirs == "entry" else await there.invalidate_tag("t")
        ) == "done"
        late = asyncio.ensure_future(ask())
        await asyncio.sleep(0)
        if gate is not None:
            gate.open()
            assert await soon(early) == 2
        assert await soon(late) == 3, "it came after an invalidation that was done"
        assert await soon(ask()) == 3


async def test_what_is_computed_while_an_invalidation_waits_still_counts() -> None:
    store, source = FaultyStore(), Source()
    async with StampedeGuard(store, namespace="w", policy=Policy(ttl=300.0)) as guard:
        assert await guard.get_or_compute("k", source.read) == 1
        refusing(guard)
        source.number = 2
        assert await guard.invalidate("k") == "pending"
        for _ in range(5):
            assert await soon(guard.get_or_compute("k", source.read)) == 2
        assert source.computed == 2
        await until(lambda: guard.engine.runtime().away)
