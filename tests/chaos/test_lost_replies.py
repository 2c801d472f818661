"""A command is carried out and its reply is lost: whichever it is, nobody notices and nothing is computed twice."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import pytest

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.policy import Policy
from tests.chaos.fleet import STRUCK
from tests.support.proxy import Fate, FaultProxy
from tests.support.sessions import patient

PATIENCE = 60.0
SCRIPTS = range(1, 6)
"""Read, acquire, a renewal or the publication, and one or two that come of the loss itself."""


@pytest.fixture(autouse=True)
def patient_after_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has waited a whole deadline asks once more, for a moment only. A busy machine needs a longer one."""
    monkeypatch.setattr("stampede_guard.core.caller.LATE_SECONDS", 10.0)


def port_of(url: str) -> int:
    return urlsplit(url).port or 6379


class Account:
    """Counts computations, each of which takes long enough for a renewal to be sent."""

    def __init__(self) -> None:
        self.started = 0
        self.running = asyncio.Event()

    async def compute(self) -> int:
        self.started += 1
        self.running.set()
        await asyncio.sleep(4.0)
        return self.started


async def one_loss(url: str, namespace: str, number: int, fate: Fate) -> None:
    """The holder's `number`-th script is carried out and its reply lost; a waiter sits on an unharmed connection."""
    # Renewed every 3 s. A lost renewal, and what is lost before it, must not be the end of the lease: that would be
    # another fault.
    rules = Policy(lease_ttl=9.0)
    account = Account()
    async with (
        FaultProxy(port_of(url)) as proxy,
        StampedeGuard.from_url(
            f"{proxy.url}?socket_timeout={STRUCK:g}", namespace=namespace, policy=rules
        ) as faulty,
        StampedeGuard.from_url(patient(url), namespace=namespace, policy=rules) as other,
    ):
        for guard in (faulty, other):
            await guard.get_or_compute("warm", _warm)
        proxy.lose_replies(b"EVALSHA", count=number - 1, fate="forward")
        proxy.lose_replies(b"EVALSHA", fate=fate)
        calls = [asyncio.create_task(faulty.get_or_compute("k", account.compute)) for _ in range(20)]
        await account.running.wait()
        calls += [asyncio.create_task(other.get_or_compute("k", account.compute)) for _ in range(20)]
        async with asyncio.timeout(PATIENCE):
            assert set(await asyncio.gather(*calls)) == {1}
        assert [await guard.get_or_compute("k", account.compute) for guard in (faulty, other)] == [1, 1]
        assert account.started == 1
        assert not proxy._lose, f"script {number} was never sent"


async def _warm() -> int:
    return 0


@pytest.mark.parametrize("fate", ["lose_and_reset", "lose"])
async def test_a_lost_reply_to_any_script_costs_no_computation(
    fate: Fate, valkey_url: str, namespace: str
) -> None:
    async with asyncio.TaskGroup() as losses:
        for number in SCRIPTS:
            losses.create_task(one_loss(valkey_url, f"{namespace}-{number}", number, fate))


@pytest.mark.parametrize("fate", ["lose_and_reset", "lose"])
async def test_an_invalidation_whose_reply_is_lost_is_done_all_the_same(
    fate: Fate, valkey_url: str, namespace: str
) -> None:
    async with (
        FaultProxy(port_of(valkey_url)) as proxy,
        StampedeGuard.from_url(f"{proxy.url}?socket_timeout={STRUCK:g}", namespace=namespace) as faulty,
        StampedeGuard.from_url(patient(valkey_url), namespace=namespace) as other,
    ):
        values = iter(range(10))

        async def compute() -> int:
            return next(values)

        await faulty.get_or_compute("k", compute)
        await faulty.invalidate("warm")
        proxy.lose_replies(b"EVALSHA", fate=fate)
        assert await faulty.invalidate("k") == "done"
        assert await other.get_or_compute("k", compute) == 1
        assert await faulty.get_or_compute("k", compute) == 1
