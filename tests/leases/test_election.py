"""Elections: who leads, until when, and who is next. In virtual time."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from stampede_guard.errors import Misuse
from stampede_guard.leases.election import Election
from stampede_guard.leases.lease import Lease
from stampede_guard.leases.messages import Withheld
from tests.leases.test_hold import Faulty
from tests.leases.virtual import Fleet, virtually


def leaders(elections: list[Election]) -> int:
    return sum(election.is_leader for election in elections)


def now() -> float:
    return asyncio.get_running_loop().time()


def test_of_all_who_stand_one_leads() -> None:
    async def main(fleet: Fleet) -> None:
        elections = [fleet.process(label).election("e") for label in "abcde"]
        for election in elections:
            election.start()
        for _ in range(200):
            await asyncio.sleep(1)
            assert leaders(elections) == 1
        leader = next(election for election in elections if election.is_leader)
        assert leader.token > 0 and leader.lease is not None
        assert {election.health()["leader"] for election in elections} == {"a (process-a)"}

    virtually(main)


def test_standing_waits_for_nobody_and_who_wants_to_wait_can() -> None:
    async def main(fleet: Fleet) -> None:
        a, b = fleet.process("a").election("e"), fleet.process("b").election("e")
        began = now()
        async with a, b:
            assert now() == began
            assert (await a.wait_elected()).token == a.token
            with pytest.raises(TimeoutError):
                await b.wait_elected(2)
            assert now() - began == pytest.approx(2, abs=0.1)
            waiter = asyncio.create_task(b.wait_elected())
            await asyncio.sleep(1)
        with pytest.raises(Misuse, match="stopped"):
            await waiter
        with pytest.raises(Misuse, match="not started"):
            await fleet.process("c").election("e").wait_elected()

    virtually(main)


def test_a_clean_shutdown_hands_over_at_once() -> None:
    async def main(fleet: Fleet) -> None:
        a, b = fleet.process("a").election("e"), fleet.process("b").election("e")
        a.start()
        await a.wait_elected()
        b.start()
        await asyncio.sleep(7)
        began = now()
        await a.stop()
        assert not a.is_leader
        await b.wait_elected(1)
        assert now() - began < 0.1

    virtually(main)


def test_a_crash_fails_over_within_the_leases_time_and_a_second() -> None:
    async def main(fleet: Fleet) -> None:
        backend = Faulty(fleet.rows)
        a, b = fleet.process("a", backend=lambda: backend).election("e"), fleet.process("b").election("e")
        a.start()
        await a.wait_elected()
        b.start()
        await asyncio.sleep(33)
        backend.away = True
        crashed = now()
        await b.wait_elected()
        assert now() - crashed <= 15 + 1
        # Cut off, the old one does not believe it any more, and no code had to run for that.
        assert not a.is_leader
        await a.stop()
        backend.away = False
        await b.stop()

    virtually(main)


def test_what_a_leader_does_is_cancelled_and_has_ended_before_the_next_one_begins() -> None:
    async def main(fleet: Fleet) -> list[str]:
        log: list[str] = []
        standing_for: dict[str, Election] = {}

        def standing(label: str) -> Election:
            async def lead(lease: Lease) -> None:
                log.append(f"{label} begins")
                try:
                    await asyncio.sleep(1_000_000)
                finally:
                    # Still protected, and no leader any more: nothing new is to begin.
                    assert lease.remaining() > 0 and not standing_for[label].is_leader
                    await asyncio.sleep(0.5)
                    log.append(f"{label} ends")

            standing_for[label] = fleet.process(label).election(
                "e", on_elected=lead, on_lost=lambda lease: log.append(f"{label} lost")
            )
            return standing_for[label]

        a, b = standing("a"), standing("b")
        a.start()
        await a.wait_elected()
        b.start()
        await asyncio.sleep(3)
        assert await a.resign()
        await b.wait_elected(5)
        await asyncio.sleep(60)
        await b.stop()
        await a.stop()
        return log

    assert virtually(main)[:5] == ["a begins", "a ends", "a lost", "b begins", "b ends"]


def test_resigning_to_somebody_hands_over_to_him() -> None:
    async def main(fleet: Fleet) -> None:
        elections = {label: fleet.process(label).election("e") for label in ("blue", "x", "green")}
        for election in elections.values():
            election.start()
            await asyncio.sleep(0.1)
        assert elections["blue"].is_leader
        assert await elections["blue"].resign(to="green")
        await elections["green"].wait_elected(1)
        assert not await elections["blue"].resign()
        # Who is named and does not stand keeps nobody from leading.
        assert await elections["green"].resign(to="nobody")
        await elections["x"].wait_elected(1)

    virtually(main)


def test_one_whose_work_fails_makes_place_for_others_and_one_with_nothing_to_do_leads_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(fleet: Fleet) -> None:
        async def fail(lease: Lease) -> None:
            raise ZeroDivisionError

        a = fleet.process("a").election("e", on_elected=fail)
        b = fleet.process("b").election("e", on_elected=lambda lease: None)
        async with a, b:
            await b.wait_elected(10)
            await asyncio.sleep(60)
            assert b.is_leader

    with caplog.at_level(logging.ERROR, "stampede_guard.leases"):
        virtually(main)
    assert "so it resigns" in caplog.text


def test_an_operator_can_send_a_leader_away() -> None:
    async def main(fleet: Fleet) -> None:
        a, b = fleet.process("a").election("e"), fleet.process("b").election("e")
        async with a:
            await a.wait_elected()
            async with b:
                await asyncio.sleep(1)
                await fleet.process("operator").force_release("e", token=a.token, by="eve")
                await b.wait_elected(7)
                assert not a.is_leader

    virtually(main)


def test_a_leader_whose_loop_was_blocked_does_not_believe_any_more() -> None:
    async def main(fleet: Fleet) -> None:
        loop: Any = asyncio.get_running_loop()
        election = fleet.process("a").election("e")
        async with election:
            await election.wait_elected()
            loop.virtual.now += 15
            assert not election.is_leader and election.token == 0 and election.lease is None
            await asyncio.sleep(30)
            assert election.is_leader

    virtually(main)


def test_the_lifespan_stands_in_all_elections_and_hands_over_at_its_end() -> None:
    async def main(fleet: Fleet) -> None:
        a = fleet.process("a")
        one, two = a.election("one"), a.election("two")
        async with a.lifespan(None):
            await one.wait_elected(1)
            await two.wait_elected(1)
            health = a.health()
            assert [(e["name"], e["is_leader"]) for e in health["elections"]] == [
                ("t:one", True),
                ("t:two", True),
            ]
        assert fleet.holder("one") == fleet.holder("two") == ""

    virtually(main)


def test_an_election_is_started_once() -> None:
    async def main(fleet: Fleet) -> None:
        election = fleet.process("a").election("e")
        async with election:
            with pytest.raises(Misuse, match="already started"):
                election.start()
        async with election:
            await election.wait_elected(1)

    virtually(main)


def test_a_leader_whose_work_was_cancelled_from_within_makes_place(caplog: pytest.LogCaptureFixture) -> None:
    async def main(fleet: Fleet) -> None:
        async def work(_: Lease) -> None:
            inner = asyncio.ensure_future(asyncio.sleep(1))
            inner.cancel()
            await inner

        a = fleet.process("a").election("e", on_elected=work)
        b = fleet.process("b").election("e")
        async with a:
            await asyncio.sleep(0.01)
            async with b:
                await b.wait_elected(10)
                assert not a.is_leader

    virtually(main)
    assert "was cancelled, so it resigns" in caplog.text


def test_an_error_of_any_kind_ends_neither_standing_nor_leading(caplog: pytest.LogCaptureFixture) -> None:
    class Mistaken(Faulty):
        mistaken = True

        async def _fail(self, timeout: float) -> None:
            if self.mistaken:
                raise LookupError("a password that could not be fetched")

    async def main(fleet: Fleet) -> None:
        mistaken = Mistaken(fleet.rows)
        election = fleet.process("a", backend=lambda: mistaken).election("e")
        async with election:
            await asyncio.sleep(1)
            mistaken.mistaken = False
            lease = await election.wait_elected(60)
            token = lease.token
            mistaken.mistaken = True
            await asyncio.sleep(7)
            mistaken.mistaken = False
            await asyncio.sleep(60)
            assert election.is_leader and election.token == token

    virtually(main)
    assert "could not be fetched" in caplog.text


def test_what_is_done_at_the_end_of_leadership_may_take_leases_while_all_is_closed() -> None:
    async def main(fleet: Fleet) -> None:
        leases = fleet.process("a")
        took: list[int] = []

        async def on_lost(_: Lease) -> None:
            async with leases.hold("tidy") as lease:
                took.append(lease.token)

        election = leases.election("e", on_lost=on_lost)
        election.start()
        await election.wait_elected()
        await leases.aclose()
        assert len(took) == 1
        assert not leases._parts, "and nothing is left open"

    virtually(main)


def test_who_cannot_give_back_his_leadership_for_a_mistake_stands_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Mistaken(Faulty):
        mistakes = 1

        async def release(self, name: str, **given: Any) -> Any:
            if self.mistakes:
                self.mistakes -= 1
                raise LookupError("a mistake of ours")
            return await super().release(name, **given)

    async def main(fleet: Fleet) -> None:
        election = fleet.process("a", backend=lambda: Mistaken(fleet.rows)).election("e")
        async with election:
            first = (await election.wait_elected()).token
            async with asyncio.timeout(100):
                assert await election.resign()
                assert (await election.wait_elected()).token > first

    virtually(main)
    assert "a mistake of ours" in caplog.text


def test_work_that_goes_on_though_it_was_cancelled_is_told_and_holds_nobody_else_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(fleet: Fleet) -> None:
        backend = Faulty(fleet.rows)
        told: list[bool] = []
        enough = asyncio.Event()

        async def stubborn(lease: Lease) -> None:
            lease.stopping.then(lambda: told.append(a.is_leader))
            while not enough.is_set():
                try:
                    await enough.wait()
                except asyncio.CancelledError:
                    continue

        a = fleet.process("a", backend=lambda: backend).election(
            "e", on_elected=stubborn, on_lost=lambda lease: told.append(lease.remaining() > 0)
        )
        b = fleet.process("b").election("e")
        a.start()
        await a.wait_elected()
        b.start()
        backend.away = True
        await b.wait_elected(17)
        # Told to stop while it was protected, and no leader from then on; lost when it was not.
        assert told == [False, False]
        backend.away = False
        await asyncio.sleep(60)
        assert b.is_leader and a.health()["standing"] and not a.is_leader
        assert caplog.messages[-1] == said
        enough.set()
        await b.stop()
        await a.wait_elected(5)
        await a.stop()

    said = "on_elected of t:e still runs after its cancellation, without a lease"
    with caplog.at_level(logging.ERROR, "stampede_guard.leases"):
        virtually(main)
    assert caplog.messages.count(said) == 1


def test_an_on_lost_that_hangs_is_waited_for_no_longer_than_the_lease_protects_it() -> None:
    async def main(fleet: Fleet) -> None:
        enough = asyncio.Event()

        async def hang(lease: Lease) -> None:
            await enough.wait()

        a, b = fleet.process("a").election("e", on_lost=hang), fleet.process("b").election("e")
        async with a:
            await a.wait_elected()
            async with b:
                await asyncio.sleep(1)
                token = a.token
                resigned = asyncio.create_task(a.resign())
                await b.wait_elected(17)
                # While it hangs the lease is renewed, or an operator has it: the next one leads when that is over.
                assert b.token > token
                enough.set()
                await resigned

    async def with_an_operator(fleet: Fleet) -> None:
        operator = asyncio.create_task(_send_away(fleet, "e"))
        await main(fleet)
        await operator

    virtually(with_an_operator)


async def _send_away(fleet: Fleet, name: str) -> None:
    await asyncio.sleep(5)
    operator = fleet.process("operator")
    view = await operator.show(name)
    assert view is not None
    await operator.force_release(name, token=view.token, by="eve", now=True)


def test_health_says_nobody_leads_while_the_back_end_grants_nothing() -> None:
    class Withholding(Faulty):
        withholding = True

        async def acquire(self, ask: Any, *, timeout: float) -> Any:
            if self.withholding:
                return Withheld("it was started recently", 3.0)
            return await super().acquire(ask, timeout=timeout)

    async def main(fleet: Fleet) -> None:
        backend = Withholding(fleet.rows)
        election = fleet.process("a", backend=lambda: backend).election("e")
        assert (election.health()["standing"], election.health()["leader"]) == (False, "")
        async with election:
            await asyncio.sleep(1)
            assert (election.health()["standing"], election.health()["leader"]) == (True, "")
            backend.withholding = False
            await election.wait_elected(10)
            assert election.health()["leader"] == "a (process-a)"

    virtually(main)


def test_who_leads_and_who_has_stepped_down_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main(fleet: Fleet) -> None:
        a, b = fleet.process("a").election("e"), fleet.process("b").election("e")
        async with a:
            await a.wait_elected()
            async with b:
                await asyncio.sleep(1)
                await a.resign()
                await b.wait_elected(1)

    with caplog.at_level(logging.INFO, "stampede_guard.leases"):
        virtually(main)
    assert [line.partition(" (token")[0] for line in caplog.messages] == [
        "lease t:e: a (process-a) holds it",
        "lease t:e: a (process-a) gave it back after 1.0 s",
        "lease t:e: b (process-b) holds it",
        "lease t:e: b (process-b) gave it back after 0.0 s",
    ]


def test_stopped_at_whatever_moment_nothing_is_left_of_it() -> None:
    async def main(fleet: Fleet) -> None:
        for number in range(120):
            backend = Faulty(fleet.rows)
            backend.lost_answers = number % 2
            name = f"e{number}"

            async def lead(lease: Lease) -> None:
                await asyncio.sleep(0.004)

            leases = fleet.process("a", backend=lambda backend=backend: backend)
            election = leases.election(name, lease_ttl=0.3, on_elected=lead)
            election.start()
            # From before its first question to after its second renewal.
            await asyncio.sleep(0.0004 * number if number < 40 else 0.005 * (number - 37))
            await election.stop()
            await leases.aclose()
            assert (fleet.holder(name), fleet.waiting(name)) == ("", [])

    virtually(main)
