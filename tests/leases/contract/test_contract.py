"""What every back end of leases does, whichever it is. The rules themselves are in `leases.core.grants`."""

from __future__ import annotations

import asyncio

import pytest

from stampede_guard.leases.core.queue import MOST_WAITING
from stampede_guard.leases.messages import Forced, LeaseGranted, LeaseHeld, LeaseRefused, NotForced, Renewed
from stampede_guard.leases.protocol import Backend
from tests.support.gate import until
from tests.support.leases import LONG, World, ask, granted, owner


@pytest.fixture
def backend(world: World) -> Backend:
    return world.open()


class TestAcquiring:
    async def test_a_free_lease_is_granted_to_one_of_many_who_ask_at_once(
        self, world: World, name: str
    ) -> None:
        backends = [world.open() for _ in range(4)]
        answers = await asyncio.gather(
            *[
                backend.acquire(ask(name, f"{index}-{turn}"), timeout=LONG)
                for turn in range(5)
                for index, backend in enumerate(backends)
            ]
        )
        won = [answer for answer in answers if isinstance(answer, LeaseGranted)]
        assert len(won) == 1
        for answer in answers:
            assert isinstance(answer, LeaseGranted) or answer.token == won[0].token

    async def test_who_is_refused_learns_who_has_it_and_for_how_long(
        self, backend: Backend, name: str
    ) -> None:
        token = await granted(backend, name, "a", lease_ttl=60)
        answer = await backend.acquire(ask(name, "b"), timeout=LONG)
        assert isinstance(answer, LeaseHeld)
        assert (answer.owner, answer.token, answer.ahead, answer.resting) == (owner("a"), token, -1, False)
        assert 0 < answer.remaining <= 60

    async def test_asked_again_by_its_holder_it_is_the_same_token_and_is_not_shortened(
        self, world: World, backend: Backend, name: str
    ) -> None:
        token = await granted(backend, name, "a", lease_ttl=60)
        assert await granted(backend, name, "a", lease_ttl=1) == token
        await world.age(name, 30)
        assert await backend.check(name, holder="a", token=token, timeout=LONG)
        assert await granted(backend, name, "a", lease_ttl=60) == token
        await world.age(name, 45)
        assert await backend.check(name, holder="a", token=token, timeout=LONG)

    async def test_what_was_not_renewed_is_granted_to_the_next_with_a_larger_token(
        self, world: World, backend: Backend, name: str
    ) -> None:
        first = await granted(backend, name, "a", lease_ttl=60)
        await world.age(name, 61)
        assert not await backend.check(name, holder="a", token=first, timeout=LONG)
        second = await granted(backend, name, "b")
        assert second > first
        assert await backend.renew(name, holder="a", token=first, lease_ttl=60, timeout=LONG) == LeaseRefused(
            "taken"
        )
        assert not await backend.release(name, holder="a", token=first, at_least_for=0, timeout=LONG)
        assert await backend.check(name, holder="b", token=second, timeout=LONG)

    async def test_tokens_grow_however_often_it_changes_hands(self, backend: Backend, name: str) -> None:
        tokens = []
        for number in range(20):
            tokens.append(await granted(backend, name, str(number)))
            await backend.release(name, holder=str(number), token=tokens[-1], at_least_for=0, timeout=LONG)
        assert tokens == sorted(set(tokens))

    async def test_tokens_grow_when_the_clock_is_set_back(
        self, world: World, backend: Backend, name: str
    ) -> None:
        first = await granted(backend, name, "a")
        await world.age(name, -3600)
        answer = await backend.acquire(ask(name, "b"), timeout=LONG)
        assert isinstance(answer, LeaseHeld) and answer.remaining <= 60
        await backend.release(name, holder="a", token=0, at_least_for=0, timeout=LONG)
        assert await granted(backend, name, "b") > first

    async def test_a_token_of_a_clock_that_was_ahead_is_outbid_all_the_same(
        self, world: World, backend: Backend, name: str
    ) -> None:
        first = await granted(backend, name, "a")
        await backend.leave(name, holder="a", timeout=LONG)
        ahead = first + 3_600_000_000
        await world.last_is(name, ahead)
        assert await granted(backend, name, "b") == ahead + 1

    @pytest.mark.parametrize("title", ["with space", "quote'\"$1", "bräce{x}", "a\\b", "%s;--", "x" * 500])
    async def test_any_name_is_a_name(self, backend: Backend, name: str, title: str) -> None:
        full = f"{name}:{title}"
        token = await granted(backend, full, "a")
        view = await backend.show(full, timeout=LONG)
        assert view is not None and (view.name, view.token, view.held) == (full, token, True)


class TestRenewing:
    async def test_it_holds_for_another_ttl(self, world: World, backend: Backend, name: str) -> None:
        token = await granted(backend, name, "a", lease_ttl=60)
        for _ in range(3):
            await world.age(name, 50)
            answer = await backend.renew(name, holder="a", token=token, lease_ttl=60, timeout=LONG)
            assert answer == Renewed()

    async def test_nothing_is_ever_created(self, backend: Backend, name: str) -> None:
        answer = await backend.renew(name, holder="a", token=1, lease_ttl=60, timeout=LONG)
        assert answer == LeaseRefused("gone")
        assert await backend.show(name, timeout=LONG) is None

    async def test_what_has_lapsed_is_not_revived(self, world: World, backend: Backend, name: str) -> None:
        token = await granted(backend, name, "a", lease_ttl=60)
        await world.age(name, 61)
        answer = await backend.renew(name, holder="a", token=token, lease_ttl=60, timeout=LONG)
        assert answer == LeaseRefused("gone")

    @pytest.mark.parametrize(("holder", "off"), [("b", 0), ("a", 1), ("a", -1)])
    async def test_holder_and_token_must_be_those_of_the_grant(
        self, backend: Backend, name: str, holder: str, off: int
    ) -> None:
        token = await granted(backend, name, "a")
        answer = await backend.renew(name, holder=holder, token=token + off, lease_ttl=60, timeout=LONG)
        assert answer == LeaseRefused("taken")
        assert not await backend.check(name, holder=holder, token=token + off, timeout=LONG)
        assert not await backend.release(name, holder=holder, token=token + off, at_least_for=0, timeout=LONG)
        assert await backend.check(name, holder="a", token=token, timeout=LONG)


class TestReleasing:
    async def test_it_is_free_at_once(self, backend: Backend, name: str) -> None:
        token = await granted(backend, name, "a")
        assert await backend.release(name, holder="a", token=token, at_least_for=0, timeout=LONG)
        assert not await backend.release(name, holder="a", token=token, at_least_for=0, timeout=LONG)
        assert await granted(backend, name, "b") > token

    async def test_token_0_is_whatever_the_holder_has(self, backend: Backend, name: str) -> None:
        await granted(backend, name, "a")
        assert not await backend.release(name, holder="b", token=0, at_least_for=0, timeout=LONG)
        assert await backend.release(name, holder="a", token=0, at_least_for=0, timeout=LONG)

    async def test_it_rests_until_at_least_for_is_over_counted_from_its_grant(
        self, world: World, backend: Backend, name: str
    ) -> None:
        token = await granted(backend, name, "a", lease_ttl=60)
        await world.age(name, 20)
        assert await backend.release(name, holder="a", token=token, at_least_for=50, timeout=LONG)
        answer = await backend.acquire(ask(name, "a"), timeout=LONG)
        assert isinstance(answer, LeaseHeld) and answer.resting and 25 < answer.remaining <= 30
        view = await backend.show(name, timeout=LONG)
        assert view is not None and view.resting and not view.held
        await world.age(name, 31)
        assert await granted(backend, name, "b") > token

    async def test_it_rests_too_when_it_is_given_back_after_it_lapsed(
        self, world: World, backend: Backend, name: str
    ) -> None:
        token = await granted(backend, name, "a", lease_ttl=60)
        await world.age(name, 70)
        assert not await backend.release(name, holder="a", token=token, at_least_for=100, timeout=LONG)
        answer = await backend.acquire(ask(name, "b"), timeout=LONG)
        assert isinstance(answer, LeaseHeld) and answer.resting and 25 < answer.remaining <= 30

    async def test_a_name_that_nobody_ever_had_can_be_released_and_left(
        self, backend: Backend, name: str
    ) -> None:
        assert not await backend.release(name, holder="a", token=0, at_least_for=9, timeout=LONG)
        await backend.leave(name, holder="a", timeout=LONG)
        await granted(backend, name, "b")

    async def test_everybody_who_listens_hears_of_it(self, world: World, name: str) -> None:
        one, other = world.open(), world.open()
        heard: list[str] = []
        other.on_freed(heard.append)

        async def freed_and_heard() -> None:
            # Until a subscription stands, what is freed is not heard, and nothing says when it stands.
            token = await granted(one, name, "a")
            await one.release(name, holder="a", token=token, at_least_for=0, timeout=LONG)
            await asyncio.sleep(0.05)

        async with asyncio.timeout(LONG):
            while not heard:
                await freed_and_heard()
        assert set(heard) == {name}


class TestWaiting:
    async def test_those_who_wait_get_it_in_the_order_in_which_they_came(
        self, world: World, backend: Backend, name: str
    ) -> None:
        other = world.open()
        token = await granted(backend, name, "a")
        for place, (where, holder) in enumerate([(backend, "b"), (other, "c"), (backend, "d")]):
            answer = await where.acquire(ask(name, holder, place=30), timeout=LONG)
            assert isinstance(answer, LeaseHeld) and answer.ahead == place
        view = await backend.show(name, timeout=LONG)
        assert view is not None and [waiting.label for waiting in view.waiting] == ["b", "c", "d"]
        await backend.release(name, holder="a", token=token, at_least_for=0, timeout=LONG)
        answer = await backend.acquire(ask(name, "d", place=30), timeout=LONG)
        assert isinstance(answer, LeaseHeld) and (answer.ahead, answer.owner.label) == (2, "b")
        answer = await backend.acquire(ask(name, "x"), timeout=LONG)
        assert isinstance(answer, LeaseHeld) and (answer.ahead, answer.owner.label) == (-1, "b")
        assert await granted(other, name, "b") > token
        view = await backend.show(name, timeout=LONG)
        assert view is not None and [waiting.label for waiting in view.waiting] == ["c", "d"]

    async def test_a_place_lapses_when_it_is_not_asked_for_again(
        self, world: World, backend: Backend, name: str
    ) -> None:
        token = await granted(backend, name, "a", lease_ttl=600)
        for holder in "bc":
            await backend.acquire(ask(name, holder, place=30), timeout=LONG)
        await world.age(name, 20)
        answer = await backend.acquire(ask(name, "c", place=30), timeout=LONG)
        assert isinstance(answer, LeaseHeld) and answer.ahead == 1
        await world.age(name, 20)
        await backend.release(name, holder="a", token=token, at_least_for=0, timeout=LONG)
        await granted(backend, name, "c")

    async def test_who_leaves_is_waited_for_no_longer(self, backend: Backend, name: str) -> None:
        token = await granted(backend, name, "a")
        for holder in "bc":
            await backend.acquire(ask(name, holder, place=30), timeout=LONG)
        await backend.leave(name, holder="b", timeout=LONG)
        await backend.release(name, holder="a", token=token, at_least_for=0, timeout=LONG)
        await granted(backend, name, "c")

    async def test_who_leaves_gives_back_what_he_was_granted_meanwhile(
        self, backend: Backend, name: str
    ) -> None:
        await granted(backend, name, "a")
        await backend.leave(name, holder="a", timeout=LONG)
        await granted(backend, name, "b")

    async def test_a_queue_has_an_end_and_who_is_in_it_keeps_his_place(
        self, world: World, backend: Backend, name: str
    ) -> None:
        token = await granted(backend, name, "a")
        await world.crowd(name, MOST_WAITING - 1)
        for holder, place in (
            ("last", MOST_WAITING - 1),
            ("late", -1),
            ("w500", 500),
            ("last", MOST_WAITING - 1),
        ):
            answer = await backend.acquire(ask(name, holder, place=30), timeout=LONG)
            assert isinstance(answer, LeaseHeld) and answer.ahead == place, holder
        view = await backend.show(name, timeout=LONG)
        assert view is not None and len(view.waiting) == MOST_WAITING
        await backend.release(name, holder="a", token=token, at_least_for=0, timeout=LONG)
        await granted(backend, name, "w0")

    async def test_when_the_first_of_those_who_wait_for_a_free_lease_leaves_the_others_hear_of_it(
        self, world: World, name: str
    ) -> None:
        one, other = world.open(), world.open()
        heard: list[str] = []
        other.on_freed(heard.append)
        async with asyncio.timeout(LONG):
            while not heard:
                token = await granted(one, f"{name}:before", "a")
                await one.release(f"{name}:before", holder="a", token=token, at_least_for=0, timeout=LONG)
                await asyncio.sleep(0.05)
            token = await granted(one, name, "a")
            for holder in "bc":
                await one.acquire(ask(name, holder, place=30), timeout=LONG)
            await one.release(name, holder="a", token=token, at_least_for=0, timeout=LONG)
            await until(lambda: name in heard)
            heard.clear()
            await one.leave(name, holder="b", timeout=LONG)
            await until(lambda: name in heard)
            await granted(other, name, "c")

    @pytest.mark.parametrize("to", ["process-d", "pod-d", "d"])
    async def test_who_was_named_goes_first(self, backend: Backend, name: str, to: str) -> None:
        token = await granted(backend, name, "a")
        for holder in "bcd":
            await backend.acquire(ask(name, holder, place=30), timeout=LONG)
        await backend.release(name, holder="a", token=token, at_least_for=0, to=to, timeout=LONG)
        view = await backend.show(name, timeout=LONG)
        assert view is not None and [waiting.label for waiting in view.waiting] == ["d", "b", "c"]
        await granted(backend, name, "d")

    @pytest.mark.parametrize(("holder", "ahead"), [("b", 0), ("x", 0), ("a", 1)])
    async def test_only_the_holder_says_who_comes_next(
        self, backend: Backend, name: str, holder: str, ahead: int
    ) -> None:
        token = await granted(backend, name, "a")
        for waiter in ("c", "d"):
            await backend.acquire(ask(name, waiter, place=30), timeout=LONG)
        given = token if holder == "a" else 0
        await backend.release(name, holder=holder, token=given, at_least_for=60, to="pod-d", timeout=LONG)
        answer = await backend.acquire(ask(name, "c", place=30), timeout=LONG)
        assert isinstance(answer, LeaseHeld) and answer.ahead == ahead

    @pytest.mark.parametrize("to", ["host", "nobody", ""])
    async def test_among_those_who_are_called_so_or_if_nobody_is_the_order_stays(
        self, backend: Backend, name: str, to: str
    ) -> None:
        token = await granted(backend, name, "a")
        for holder in "bcd":
            await backend.acquire(ask(name, holder, place=30), timeout=LONG)
        await backend.release(name, holder="a", token=token, at_least_for=0, to=to, timeout=LONG)
        view = await backend.show(name, timeout=LONG)
        assert view is not None and [waiting.label for waiting in view.waiting] == ["b", "c", "d"]


class TestOperators:
    async def test_a_holder_is_asked_to_leave_and_is_not_prolonged_any_more(
        self, world: World, backend: Backend, name: str
    ) -> None:
        token = await granted(backend, name, "a", lease_ttl=60)
        await world.age(name, 20)
        answer = await backend.force(name, token=token, by="eve", now=False, timeout=LONG)
        assert isinstance(answer, Forced) and 30 < answer.remaining <= 40
        assert isinstance(await backend.acquire(ask(name, "b"), timeout=LONG), LeaseHeld)
        assert isinstance(await backend.acquire(ask(name, "a"), timeout=LONG), LeaseHeld)
        renewed = await backend.renew(name, holder="a", token=token, lease_ttl=60, timeout=LONG)
        assert renewed == Renewed("eve")
        await world.age(name, 41)
        await granted(backend, name, "b")

    async def test_the_holder_acknowledges_by_releasing(self, backend: Backend, name: str) -> None:
        token = await granted(backend, name, "a")
        await backend.force(name, token=token, by="eve", now=False, timeout=LONG)
        assert await backend.release(name, holder="a", token=token, at_least_for=0, timeout=LONG)
        second = await granted(backend, name, "b")
        answer = await backend.renew(name, holder="b", token=second, lease_ttl=60, timeout=LONG)
        assert answer == Renewed()

    async def test_now_frees_it_at_once(self, backend: Backend, name: str) -> None:
        token = await granted(backend, name, "a")
        assert await backend.force(name, token=token, by="eve", now=True, timeout=LONG) == Forced(0.0)
        answer = await backend.renew(name, holder="a", token=token, lease_ttl=60, timeout=LONG)
        assert answer == LeaseRefused("gone")
        assert await granted(backend, name, "b") > token

    async def test_a_token_that_is_not_the_current_one_changes_nothing(
        self, backend: Backend, name: str
    ) -> None:
        assert await backend.force(name, token=1, by="eve", now=True, timeout=LONG) == NotForced(0)
        token = await granted(backend, name, "a")
        answer = await backend.force(name, token=token - 1, by="eve", now=True, timeout=LONG)
        assert answer == NotForced(token)
        await backend.release(name, holder="a", token=token, at_least_for=0, timeout=LONG)
        assert await backend.force(name, token=token, by="eve", now=True, timeout=LONG) == NotForced(0)
        assert await backend.audits(name, limit=9, timeout=LONG) == []

    @pytest.mark.parametrize("now", [True, False])
    async def test_the_holder_hears_of_it(self, world: World, name: str, now: bool) -> None:
        operator, holder = world.open(), world.open()
        heard: list[str] = []
        holder.on_freed(heard.append)

        async def listening() -> None:
            # Until a subscription stands nothing is heard, and nothing says when it stands.
            token = await granted(operator, f"{name}:other", "x")
            await operator.release(f"{name}:other", holder="x", token=token, at_least_for=0, timeout=LONG)
            await asyncio.sleep(0.05)

        async with asyncio.timeout(LONG):
            while not heard:
                await listening()
            token = await granted(holder, name, "a")
            assert await operator.force(name, token=token - 1, by="eve", now=now, timeout=LONG) == NotForced(
                token
            )
            await listening()
            assert name not in heard
            await operator.force(name, token=token, by="eve", now=now, timeout=LONG)
            await until(lambda: name in heard)

    async def test_what_calls_do_to_each_other_is_no_operators_deed(
        self, backend: Backend, name: str
    ) -> None:
        token = await granted(backend, name, "a")
        await backend.force(name, token=token, by="a call", now=False, audited=False, timeout=LONG)
        renewed = await backend.renew(name, holder="a", token=token, lease_ttl=60, timeout=LONG)
        assert renewed == Renewed("a call")
        assert await backend.audits(name, limit=9, timeout=LONG) == []

    async def test_what_they_did_is_kept_newest_first(self, backend: Backend, name: str) -> None:
        first = await granted(backend, f"{name}:1", "a")
        second = await granted(backend, f"{name}:2", "b")
        await backend.force(f"{name}:1", token=first, by="eve", now=False, timeout=LONG)
        await backend.force(f"{name}:2", token=second, by="bob", now=True, timeout=LONG)
        audits = await backend.audits(f"{name}:", limit=9, timeout=LONG)
        told = [(audit.name, audit.token, audit.by, audit.now, audit.owner) for audit in audits]
        assert told == [
            (f"{name}:2", second, "bob", True, owner("b")),
            (f"{name}:1", first, "eve", False, owner("a")),
        ]
        assert len(await backend.audits(f"{name}:", limit=1, timeout=LONG)) == 1
        assert audits[0].at >= audits[1].at > 0


class TestLooking:
    async def test_a_view_tells_what_people_want_to_know(
        self, world: World, backend: Backend, name: str
    ) -> None:
        assert await backend.show(name, timeout=LONG) is None
        token = await granted(backend, name, "a", lease_ttl=60)
        view = await backend.show(name, timeout=LONG)
        assert view is not None
        assert (view.token, view.held, view.owner, view.resting) == (token, True, owner("a"), False)
        assert 0 < view.remaining <= 60 and view.granted_at == view.renewed_at > 0
        await world.age(name, 20)
        await backend.renew(name, holder="a", token=token, lease_ttl=60, timeout=LONG)
        await backend.force(name, token=token, by="eve", now=False, timeout=LONG)
        view = await backend.show(name, timeout=LONG)
        assert view is not None and view.asked_to_leave == "eve"
        assert 19 < view.renewed_at - view.granted_at < 40
        await backend.leave(name, holder="a", timeout=LONG)
        view = await backend.show(name, timeout=LONG)
        assert view is not None
        assert (view.held, view.token, view.owner, view.remaining) == (False, token, owner("a"), 0.0)

    async def test_views_are_those_of_a_prefix_by_name(self, backend: Backend, name: str) -> None:
        for title in ("b", "a", "c"):
            await granted(backend, f"{name}:{title}", "h")
        await granted(backend, f"{name}%other", "h")
        views = await backend.views(f"{name}:", limit=2, timeout=LONG)
        assert [view.name for view in views] == [f"{name}:a", f"{name}:b"]


async def test_what_is_heard_after_closing_harms_nobody(world: World, name: str) -> None:
    one, other = world.open(), world.open()
    heard: list[str] = []
    other.on_freed(heard.append)
    await granted(other, name, "a")
    await other.aclose()
    await one.leave(name, holder="a", timeout=LONG)
    await until(lambda: True)
    assert heard == []
