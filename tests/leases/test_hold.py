"""Holding a lease: who gets it, what the body is told, what is left behind. In virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stampede_guard import events
from stampede_guard.errors import LeaseLost, LeaseTaken, Misuse, PolicyError, StoreRefused, StoreUnavailable
from stampede_guard.leases.memory import LeaseRows, MemoryBackend
from stampede_guard.leases.messages import Forced, NotForced
from stampede_guard.leases.owner import this_process
from tests.leases.virtual import Fleet, virtually


class Faulty(MemoryBackend):
    """Away while `away`; `lost_answers` of questions that were carried out."""

    def __init__(self, rows: LeaseRows) -> None:
        super().__init__(rows)
        self.away = False
        self.lost_answers = 0

    async def acquire(self, ask: Any, *, timeout: float) -> Any:
        await self._fail(timeout)
        answer = await super().acquire(ask, timeout=timeout)
        if self.lost_answers:
            self.lost_answers -= 1
            await asyncio.sleep(timeout)
            raise StoreUnavailable("no answer in time")
        return answer

    async def renew(self, name: str, **given: Any) -> Any:
        await self._fail(given["timeout"])
        return await super().renew(name, **given)

    async def release(self, name: str, **given: Any) -> Any:
        await self._fail(given["timeout"])
        return await super().release(name, **given)

    async def check(self, name: str, **given: Any) -> Any:
        await self._fail(given["timeout"])
        return await super().check(name, **given)

    async def _fail(self, timeout: float) -> None:
        if self.away:
            await asyncio.sleep(timeout)
            raise StoreUnavailable("no answer in time")
        await asyncio.sleep(0.001)


def test_who_waits_longer_than_the_holder_needs_gets_it() -> None:
    async def main(fleet: Fleet) -> None:
        a, b = fleet.process("a"), fleet.process("b")
        loop = asyncio.get_running_loop()

        async def second() -> float:
            async with b.hold("n", wait=1_000):
                return loop.time()

        async with a.hold("n"):
            task = asyncio.create_task(second())
            await asyncio.sleep(100)
            given_back = loop.time()
        assert await task - given_back < 0.01

    virtually(main)


def test_the_wait_is_bounded_and_says_who_holds() -> None:
    async def main(fleet: Fleet) -> None:
        a, b = fleet.process("a"), fleet.process("b")
        began = asyncio.get_running_loop().time()
        async with a.hold("n") as lease:
            with pytest.raises(LeaseTaken) as raised:
                async with b.hold("n", wait=5):
                    raise AssertionError
            assert asyncio.get_running_loop().time() - began == pytest.approx(5, abs=0.1)
            assert (raised.value.holder, raised.value.token) == ("a (process-a)", lease.token)
            await asyncio.sleep(0.1)
            assert fleet.waiting("n") == []

    virtually(main)


def test_it_is_renewed_for_as_long_as_the_body_takes() -> None:
    async def main(fleet: Fleet) -> None:
        a = fleet.process("a")
        async with a.hold("n", 6) as lease:
            for _ in range(100):
                await asyncio.sleep(1)
                assert lease.remaining() > 3
                await lease.check()
            assert [hold["token"] for hold in a.health()["holds"]] == [lease.token]
        assert fleet.holder("n") == "" and lease.remaining() == 0
        assert a.health()["holds"] == []

    virtually(main)


def test_with_the_back_end_away_the_body_is_cancelled_before_belief_ends() -> None:
    async def main(fleet: Fleet) -> None:
        backend = Faulty(fleet.rows)
        a = fleet.process("a", backend=lambda: backend)
        with pytest.raises(LeaseLost, match="could not be renewed in time"):
            async with a.hold("n", 60, grace=5) as lease:
                backend.away = True
                try:
                    await asyncio.sleep(1_000)
                finally:
                    assert 4.9 < lease.remaining() <= 5
                    assert lease.stopping and not lease.lost

    virtually(main)


def test_what_the_back_end_could_not_be_told_is_not_called_given_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(fleet: Fleet) -> None:
        backend = Faulty(fleet.rows)
        a = fleet.process("a", backend=lambda: backend)
        with pytest.raises(LeaseLost):
            async with a.hold("n", 60):
                backend.away = True
                await asyncio.sleep(1_000)

    with caplog.at_level(logging.INFO, "stampede_guard.leases"):
        virtually(main)
    assert any("could not be released, it ends at its deadline" in line for line in caplog.messages)
    assert not any("gave it back" in line for line in caplog.messages)
    assert any("no longer uses it" in line for line in caplog.messages)


def test_a_body_that_goes_on_in_spite_of_it_is_told_when_nothing_protects_it_any_more() -> None:
    async def main(fleet: Fleet) -> None:
        backend = Faulty(fleet.rows)
        a = fleet.process("a", backend=lambda: backend)
        with pytest.raises(LeaseLost):
            async with a.hold("n", 6) as lease:
                backend.away = True
                try:
                    await asyncio.sleep(1_000)
                except asyncio.CancelledError:
                    why = await lease.lost
                assert lease.remaining() == 0 and "renewed" in why

    virtually(main)


def test_a_body_that_finishes_in_the_time_that_is_left_has_done_well() -> None:
    async def main(fleet: Fleet) -> str:
        backend = Faulty(fleet.rows)
        a = fleet.process("a", backend=lambda: backend)
        async with a.hold("n", 6, grace=2) as lease:
            backend.away = True
            try:
                await asyncio.sleep(1_000)
            except asyncio.CancelledError:
                backend.away = False
                return f"saved with {lease.remaining():.0f} s left"
        raise AssertionError

    assert virtually(main) == "saved with 2 s left"


def test_a_body_that_kept_the_loop_from_everything_is_told_that_it_was_not_protected() -> None:
    async def main(fleet: Fleet) -> None:
        a, b = fleet.process("a"), fleet.process("b")
        loop: Any = asyncio.get_running_loop()
        with pytest.raises(LeaseLost):
            async with a.hold("n", 6) as lease:
                # A computation without an await: timers are late, the clock is not.
                loop.virtual.now += 7
                assert lease.remaining() == 0
                await b.part().backend.acquire(question("n"), timeout=1)
        assert fleet.holder("n") == "other"

    virtually(main)


def question(name: str) -> Any:
    from stampede_guard.leases.messages import LeaseRequest, Owner

    return LeaseRequest(name=f"t:{name}", holder="h", owner=Owner(process="o", label="other"), lease_ttl=60)


def test_its_own_error_is_the_bodys_and_so_is_a_cancellation_from_elsewhere() -> None:
    async def main(fleet: Fleet) -> None:
        a = fleet.process("a")
        with pytest.raises(ZeroDivisionError):
            async with a.hold("n"):
                raise ZeroDivisionError
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5), a.hold("n"):
                await asyncio.sleep(1_000)
        assert fleet.holder("n") == ""

    virtually(main)


def test_who_cancels_a_body_that_is_being_stopped_gets_a_cancellation() -> None:
    async def main(fleet: Fleet) -> None:
        backend = Faulty(fleet.rows)
        a = fleet.process("a", backend=lambda: backend)

        async def body() -> None:
            async with a.hold("n", 6):
                backend.away = True
                try:
                    await asyncio.sleep(1_000)
                finally:
                    cleaning.set()
                    await asyncio.sleep(1)

        cleaning = asyncio.Event()
        task = asyncio.create_task(body())
        await cleaning.wait()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    virtually(main)


def test_holds_within_holds_are_told_apart() -> None:
    async def main(fleet: Fleet) -> None:
        a, operator = fleet.process("a"), fleet.process("operator")
        async with a.hold("outer", 6):
            with pytest.raises(LeaseLost, match="inner"):
                async with a.hold("inner", 6) as inner:
                    await operator.force_release("inner", token=inner.token, by="eve")
                    await asyncio.sleep(1_000)
            await asyncio.sleep(1)
            assert fleet.holder("outer") == "a"
        with pytest.raises(LeaseLost, match="outer"):
            async with a.hold("outer", 6) as outer, a.hold("inner", 6):
                await operator.force_release("outer", token=outer.token, by="eve")
                await asyncio.sleep(1_000)
        assert fleet.holder("inner") == ""

    virtually(main)


def test_an_operator_has_it_released_by_its_holder() -> None:
    async def main(fleet: Fleet) -> None:
        a, operator = fleet.process("a"), fleet.process("operator")
        with pytest.raises(LeaseLost, match="eve asked for its release"):
            async with a.hold("n", 60) as lease:
                assert await operator.force_release("n", token=lease.token + 1, by="eve") == NotForced(
                    lease.token
                )
                assert isinstance(await operator.force_release("n", token=lease.token, by="eve"), Forced)
                with pytest.raises(LeaseTaken):
                    async with operator.hold("n", wait=1):
                        raise AssertionError
                await asyncio.sleep(1_000)
        async with operator.hold("n", wait=0) as after:
            assert after.token > lease.token
        assert [(audit.by, audit.now) for audit in await operator.audits()] == [("eve", False)]

    virtually(main)


def test_an_operator_who_does_not_wait_takes_it_and_the_holder_finds_out() -> None:
    async def main(fleet: Fleet) -> None:
        a, operator = fleet.process("a"), fleet.process("operator")
        with pytest.raises(LeaseLost):
            async with a.hold("n", 60) as lease:
                await operator.force_release("n", token=lease.token, by="eve", now=True)
                with pytest.raises(LeaseLost):
                    await lease.check()
                assert lease.remaining() == 0
        assert [audit.now for audit in await operator.audits()] == [True]
        with pytest.raises(Misuse, match="by="):
            await operator.force_release("n", token=1, by="")

    virtually(main)


@pytest.mark.parametrize(("by", "told"), [("a\0b", "a\\0b"), ("caf\udce9", "caf\\udce9")])
def test_an_operators_name_is_recorded_as_text_that_every_back_end_can_keep(by: str, told: str) -> None:
    async def main(fleet: Fleet) -> None:
        a, operator = fleet.process("a"), fleet.process("operator")
        with pytest.raises(LeaseLost):
            async with a.hold("n", 60) as lease:
                await operator.force_release("n", token=lease.token, by=by, now=True)
                await lease.check()
        assert [audit.by for audit in await operator.audits()] == [told]

    virtually(main)


@pytest.mark.parametrize("by", ["", None, 7])
def test_an_operator_without_a_name_is_refused(by: Any) -> None:
    async def main(fleet: Fleet) -> None:
        with pytest.raises(Misuse, match="by="):
            await fleet.process("operator").force_release("n", token=1, by=by)

    virtually(main)


def test_the_owner_of_a_process_is_text_that_every_back_end_can_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "caf\udce9")  # as Python reads bytes that are no UTF-8
    assert this_process().pod == "caf\\udce9"


def test_a_holder_who_was_not_waited_for_finds_out_long_before_his_next_renewal() -> None:
    async def main(fleet: Fleet) -> None:
        a, operator = fleet.process("a"), fleet.process("operator")
        with pytest.raises(LeaseLost, match="no longer has it"):
            async with a.hold("n", 6_000) as lease:
                await asyncio.sleep(500)
                await operator.force_release("n", token=lease.token, by="eve", now=True)
                async with asyncio.timeout(1):
                    await lease.lost
                await asyncio.sleep(1_000)

    virtually(main)


def test_nothing_starts_while_the_back_end_is_away() -> None:
    async def main(fleet: Fleet) -> None:
        backend = Faulty(fleet.rows)
        backend.away = True
        a = fleet.process("a", backend=lambda: backend)
        for wait in (0, 20):
            with pytest.raises(StoreUnavailable):
                async with a.hold("n", wait=wait):
                    raise AssertionError
        backend.away = False
        async with a.hold("n", wait=0) as lease:
            backend.away = True
            with pytest.raises(StoreUnavailable):
                await lease.check()
            backend.away = False

    virtually(main)


def test_a_refusal_that_may_pass_is_waited_for_and_another_is_told_at_once() -> None:
    class Refusing(MemoryBackend):
        may_pass = True
        left = 3

        async def acquire(self, ask: Any, *, timeout: float) -> Any:
            if self.left:
                self.left -= 1
                raise StoreRefused("LOADING", may_pass=self.may_pass)
            return await super().acquire(ask, timeout=timeout)

    async def main(fleet: Fleet) -> None:
        backend = Refusing(fleet.rows)
        a = fleet.process("a", backend=lambda: backend)
        async with a.hold("n", wait=10):
            pass
        backend.left, backend.may_pass = 1, False
        with pytest.raises(StoreRefused):
            async with a.hold("n", wait=10):
                raise AssertionError

    virtually(main)


def test_a_grant_whose_answer_was_lost_is_found_by_asking_again() -> None:
    async def main(fleet: Fleet) -> None:
        backend = Faulty(fleet.rows)
        backend.lost_answers = 1
        a = fleet.process("a", backend=lambda: backend)
        async with a.hold("n", 60, wait=10) as lease:
            assert fleet.rows.row("t:n").token == lease.token

    virtually(main)


def test_a_grant_whose_answer_was_lost_is_given_back_when_it_is_not_asked_for_again() -> None:
    async def main(fleet: Fleet) -> None:
        backend = Faulty(fleet.rows)
        backend.lost_answers = 1
        a = fleet.process("a", backend=lambda: backend)
        with pytest.raises(StoreUnavailable):
            async with a.hold("n", 60, wait=0):
                raise AssertionError
        await asyncio.sleep(1)
        assert fleet.holder("n") == ""

    virtually(main)


def test_what_is_given_back_early_rests() -> None:
    async def main(fleet: Fleet) -> None:
        a, b = fleet.process("a"), fleet.process("b")
        began = asyncio.get_running_loop().time()
        async with a.hold("n", at_least_for=10):
            pass
        with pytest.raises(LeaseTaken):
            async with b.hold("n", wait=0):
                raise AssertionError
        async with b.hold("n", wait=20):
            assert 10 <= asyncio.get_running_loop().time() - began < 10.5

    virtually(main)


def test_those_who_wait_are_served_in_the_order_in_which_they_came() -> None:
    async def main(fleet: Fleet) -> None:
        order: list[str] = []

        async def hold(label: str) -> None:
            async with fleet.process(label).hold("n", wait=1_000):
                order.append(label)
                await asyncio.sleep(3)

        tasks = []
        for label in "abcdefgh":
            tasks.append(asyncio.create_task(hold(label)))
            await asyncio.sleep(0.1)
        await asyncio.gather(*tasks)
        assert order == list("abcdefgh")

    virtually(main)


def test_the_hooks_and_the_log_are_told_who_held_who_lost_and_who_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[events.Event] = []

    async def main(fleet: Fleet) -> None:
        a = fleet.process("a", hooks=(told.append,))
        async with a.hold("n:7"):
            with pytest.raises(LeaseTaken):
                async with a.hold("n:7", wait=0):
                    raise AssertionError
        with pytest.raises(LeaseLost):
            async with a.hold("n:7") as lease:
                await a.force_release("n:7", token=lease.token, by="eve", now=True)

    with caplog.at_level(logging.INFO, "stampede_guard.leases"):
        virtually(main)
    kinds = [events.LeaseWon, events.LeaseSkipped, events.LeaseReleased, events.LeaseWon, events.HoldLost]
    assert [type(event) for event in told] == kinds
    assert {(event.function, event.entry) for event in told} == {("hold", "t:n:7")}  # type: ignore[union-attr]
    assert [line.partition(":")[2].partition("token")[0] for line in caplog.messages] == [
        "n:7: a (process-a) holds it (",
        "n:7: a (process-a) skips: the lease 't:n:7' is held by a (process-a) (",
        "n:7: a (process-a) gave it back after 0.0 s (",
        "n:7: a (process-a) holds it (",
        "n:7: a (process-a) lost it after 0.0 s (",
    ]
    assert [record.levelname for record in caplog.records] == ["INFO"] * 4 + ["ERROR"]


def test_what_cannot_work_is_told_where_it_is_written() -> None:
    async def main(fleet: Fleet) -> None:
        a = fleet.process("a")
        with pytest.raises(PolicyError, match="renew_every"):
            a.hold("n", 60, renew_every=60)
        with pytest.raises(PolicyError, match="wait"):
            a.hold("n", wait=-1)
        for name in ("", "x" * 201, "a\nb", 7):
            with pytest.raises(Misuse, match="cannot be the name"):
                a.hold(name)  # type: ignore[arg-type]
        with pytest.raises(Misuse, match="namespace"):
            fleet.process("a").__class__(lambda: MemoryBackend(), namespace="")
        hold = a.hold("n")
        async with hold:
            pass
        with pytest.raises(Misuse, match="already used"):
            async with hold:
                raise AssertionError
        async with a.hold("n") as lease:
            with pytest.raises(Misuse, match="PostgresLeases"):
                async with lease.fenced(object()):
                    raise AssertionError

    virtually(main)


def test_a_renewal_that_hangs_for_ever_keeps_nobody_from_being_told() -> None:
    class Hanging(MemoryBackend):
        async def renew(self, name: str, **given: Any) -> Any:
            # In spite of the time-out that it was given.
            await hang.wait()
            raise StoreUnavailable("at last")

    async def main(fleet: Fleet) -> None:
        a = fleet.process("a", backend=lambda: Hanging(fleet.rows))
        with pytest.raises(LeaseLost, match="could not be renewed"):
            async with a.hold("n", 60, grace=5) as lease:
                try:
                    await asyncio.sleep(1_000)
                finally:
                    assert 4.9 < lease.remaining() <= 5
                    hang.set()

    hang = asyncio.Event()
    virtually(main)


def test_a_check_that_fails_tells_all_that_nothing_protects_them() -> None:
    async def main(fleet: Fleet) -> None:
        a = fleet.process("a")
        with pytest.raises(LeaseLost):
            async with a.hold("n") as lease:
                await a.force_release("n", token=lease.token, by="eve", now=True)
                with pytest.raises(LeaseLost):
                    await lease.check()
                assert lease.lost and lease.stopping
                assert await lease.lost == lease.stopping.why == "the back end no longer has it"

    virtually(main)


def test_what_is_believed_no_more_is_not_asked_for_though_the_back_end_still_has_it() -> None:
    class Fenced(MemoryBackend):
        """Says yes to everything."""

        async def fence(self, conn: Any, name: str, *, holder: str, token: int) -> bool:
            return True

        async def check(self, name: str, **given: Any) -> bool:
            asked.append(name)
            return True

    async def main(fleet: Fleet) -> None:
        loop: Any = asyncio.get_running_loop()
        a = fleet.process("a", backend=lambda: Fenced(fleet.rows))
        for ask_it in (check, write):
            with contextlib.suppress(LeaseLost):
                async with a.hold("n", 60) as lease:
                    loop.virtual.now += 59.5
                    assert lease.remaining() == 0 and fleet.holder("n") == "a"
                    with pytest.raises(LeaseLost):
                        await ask_it(lease)

    async def check(lease: Any) -> None:
        await lease.check()

    async def write(lease: Any) -> None:
        async with lease.fenced(Transactions(begun=False)):
            pass

    asked: list[str] = []
    virtually(main)
    assert asked == []


class Transactions:
    """A connection with the face of SQLAlchemy's; notes how its transactions began and ended."""

    def __init__(self, *, begun: bool) -> None:
        self.begun = begun
        self.told: list[str] = []

    def in_transaction(self) -> bool:
        return self.begun

    def begin(self) -> Any:
        return self._transaction("begin")

    def begin_nested(self) -> Any:
        return self._transaction("begin_nested")

    @contextlib.asynccontextmanager
    async def _transaction(self, how: str) -> AsyncIterator[None]:
        self.told.append(how)
        try:
            yield
        except BaseException:
            self.told.append("rollback")
            raise
        self.told.append("commit")


@pytest.mark.parametrize(("begun", "how"), [(False, "begin"), (True, "begin_nested")])
@pytest.mark.parametrize(("held", "end"), [(True, "commit"), (False, "rollback")])
def test_a_transaction_that_was_begun_is_nested_in_and_the_fence_decides_its_end(
    begun: bool, how: str, held: bool, end: str
) -> None:
    class Fenced(MemoryBackend):
        async def fence(self, conn: Any, name: str, *, holder: str, token: int) -> bool:
            assert conn is connection and connection.told == [how]
            return held

    async def main(fleet: Fleet) -> None:
        a = fleet.process("a", backend=lambda: Fenced(fleet.rows))
        async with a.hold("n") as lease:
            with contextlib.nullcontext() if held else pytest.raises(LeaseLost):
                async with lease.fenced(connection) as given:
                    assert given is connection

    connection = Transactions(begun=begun)
    virtually(main)
    assert connection.told == [how, end]


def test_a_task_that_survived_a_cancellation_is_told_of_a_loss_as_any_other() -> None:
    async def main(fleet: Fleet) -> None:
        async def body() -> None:
            # Swallowed: its count of cancellations stays at one.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1_000)
            async with a.hold("n", 6):
                backend.away = True
                await asyncio.sleep(1_000)

        backend = Faulty(fleet.rows)
        a = fleet.process("a", backend=lambda: backend)
        task = asyncio.create_task(body())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait({task})
        assert isinstance(task.exception(), LeaseLost)
        backend.away = False

    virtually(main)


@pytest.mark.parametrize("how", ["error", "cancelled"])
def test_it_rests_as_long_when_the_body_fails(how: str) -> None:
    async def main(fleet: Fleet) -> None:
        async def body() -> None:
            async with a.hold("n", at_least_for=300):
                if how == "error":
                    raise ZeroDivisionError
                await asyncio.sleep(1_000)

        a = fleet.process("a")
        task = asyncio.create_task(body())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait({task})
        await asyncio.sleep(200)
        with pytest.raises(LeaseTaken, match="n"):
            async with a.hold("n", wait=0):
                raise AssertionError
        await asyncio.sleep(100)
        async with a.hold("n", wait=0):
            pass

    virtually(main)


def test_after_a_holder_that_died_nobody_gets_it_before_its_lease_ends_and_then_the_next_does() -> None:
    """`at_least_for` is told when it is given back, and nobody gave it back."""

    async def main(fleet: Fleet) -> None:
        backend = Faulty(fleet.rows)
        dead, b = fleet.process("dead", backend=lambda: backend), fleet.process("b")
        began = asyncio.get_running_loop().time()
        with pytest.raises(LeaseLost):
            async with dead.hold("n", 60, at_least_for=300):
                backend.away = True
                await asyncio.sleep(1_000)
        async with b.hold("n", wait=1_000):
            assert 60 <= asyncio.get_running_loop().time() - began < 62
        backend.away = False

    virtually(main)


def test_a_back_end_that_cannot_be_asked_is_a_line_in_the_log_for_who_waits_and_only_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main(fleet: Fleet) -> None:
        backend = Faulty(fleet.rows)
        backend.away = True
        a = fleet.process("a", backend=lambda: backend)
        with pytest.raises(StoreUnavailable):
            async with a.hold("n", wait=0):
                raise AssertionError
        assert not [line for line in caplog.messages if "cannot ask" in line], "he is told by the error"
        with pytest.raises(StoreUnavailable):
            async with a.hold("n", wait=60):
                raise AssertionError
        backend.away = False

    with caplog.at_level(logging.WARNING, "stampede_guard.leases"):
        virtually(main)
    said = [line for line in caplog.messages if "cannot ask for it" in line]
    assert said == ["lease t:n: a (process-a) cannot ask for it: no answer in time"]


def test_health_tells_who_this_process_is_what_it_holds_and_what_it_stands_for() -> None:
    async def main(fleet: Fleet) -> None:
        a, b = fleet.process("a"), fleet.process("b")
        election, other = a.election("leader"), b.election("leader")
        empty = {"namespace": "t", "process": "process-a", "pod": "", "pid": 0}
        at_rest = {"name": "t:leader", "standing": False, "is_leader": False, "token": 0, "remaining": 0.0}
        assert a.health() == empty | {"holds": [], "elections": [at_rest | {"leader": ""}]}
        async with election, a.hold("zebra", 60) as zebra, a.hold("ant", 60) as ant:
            lease = await election.wait_elected()
            async with other:
                await asyncio.sleep(1)
                assert b.health()["elections"] == [at_rest | {"standing": True, "leader": "a (process-a)"}]
                assert b.health()["holds"] == []
            told = a.health()
            assert [(held["name"], held["token"]) for held in told["holds"]] == [
                ("t:ant", ant.token),
                ("t:leader", lease.token),
                ("t:zebra", zebra.token),
            ]
            assert all(0 < held["remaining"] <= 60 for held in told["holds"])
            (leading,) = told["elections"]
            assert (leading["standing"], leading["is_leader"], leading["token"]) == (True, True, lease.token)
            assert leading["leader"] == "a (process-a)" and 0 < leading["remaining"] <= 15
        assert a.health() == empty | {"holds": [], "elections": [at_rest | {"leader": ""}]}

    virtually(main)


@pytest.mark.parametrize("moment", ["before", "within"])
def test_closing_goes_on_when_its_caller_is_cancelled(moment: str) -> None:
    class Slow(MemoryBackend):
        async def aclose(self) -> None:
            reached.set()
            await asyncio.sleep(1)
            await super().aclose()
            closed.append(True)

    async def main(fleet: Fleet) -> None:
        async def end() -> None:
            # What jobs do before their leases are closed.
            if moment == "before":
                reached.set()
                await asyncio.sleep(1_000)

        a = fleet.process("a", backend=lambda: Slow(fleet.rows))
        a.part().before_closing[end] = None
        closing = asyncio.create_task(a.aclose())
        await reached.wait()
        closing.cancel()
        await asyncio.wait({closing})
        assert closing.cancelled()
        await asyncio.sleep(2)
        assert closed == [True]
        await a.aclose()
        assert closed == [True]

    reached, closed = asyncio.Event(), list[bool]()
    virtually(main)
