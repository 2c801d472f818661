"""Memory, Redis and PostgreSQL at once against the pure rules: whatever is asked in whatever order, all answer alike.

Time is the model's own. What it says of a row is made true in the servers by making their rows older; the few
milliseconds that a step really takes decide nothing, because every deadline lies 2.5 s away from every step.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import redis.asyncio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from stampede_guard.leases.core import grants
from stampede_guard.leases.core.grants import EMPTY
from stampede_guard.leases.messages import Forced, LeaseGranted, LeaseHeld, LeaseView, NotForced
from stampede_guard.stores.redis import RedisStore
from tests.support.leases import LONG, MemoryWorld, PostgresWorld, RedisWorld, World, ask

HOLDERS = st.sampled_from(["a", "b", "c", "d"])
TTLS = st.sampled_from([130.0, 250.0])
PLACES = st.sampled_from([0.0, 110.0, 110.0])
RESTS = st.sampled_from([0.0, 0.0, 170.0])
AGES = st.sampled_from([20, 40, 80, 160, 280])
"""Multiples of 20. No sum of them is nearer than 10 to the end of one of the others."""
PICK = st.integers(0, 3)
"""A token by its age: 0 is the latest one."""
SLACK = 8.0
"""Seconds that an example may take on a busy machine, in which servers count on."""


class Worlds:
    """The worlds and their event loop, for all examples of a run."""

    def __init__(self, runner: asyncio.Runner, worlds: dict[str, World]) -> None:
        self.runner = runner
        self.worlds = worlds
        self.backends = {title: world.open() for title, world in worlds.items()}
        self.names = (f"machine:{uuid.uuid4().hex}-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def worlds(valkey_url: str, postgres_url: str) -> Iterator[Worlds]:
    with asyncio.Runner() as runner:
        outside = redis.asyncio.Redis.from_url(valkey_url)
        namespace = uuid.uuid4().hex

        async def make() -> Worlds:
            postgres = PostgresWorld(postgres_url)
            await postgres.prepare()
            valkey = RedisWorld(RedisStore(outside, deadline=LONG), outside, namespace)
            return Worlds(runner, {"memory": MemoryWorld(), "postgres": postgres, "valkey": valkey})

        made = runner.run(make())
        yield made

        async def close() -> None:
            for world in made.worlds.values():
                await world.aclose()

        runner.run(close())


class Machine(RuleBasedStateMachine):
    def __init__(self, worlds: Worlds) -> None:
        super().__init__()
        self.worlds = worlds
        self.name = ""
        self.row = EMPTY
        self.now = 1_600_000_000.0
        self.tokens: dict[str, list[int]] = {title: [] for title in ("model", *worlds.backends)}

    @initialize()
    def begin(self) -> None:
        self.name = next(self.worlds.names)

    # --- steps ------------------------------------------------------------------------------------

    @rule(holder=HOLDERS, lease_ttl=TTLS, place=PLACES)
    def asks(self, holder: str, lease_ttl: float, place: float) -> None:
        question = ask(self.name, holder, lease_ttl=lease_ttl, place=place)
        self.row, expected = grants.ask(self.row, question, self.now)
        answers = self.on_all(lambda backend, _: backend.acquire(question, timeout=LONG))
        new = isinstance(expected, LeaseGranted) and expected.token not in self.tokens["model"]
        for title, answer in {"model": expected, **answers}.items():
            if new:
                assert isinstance(answer, LeaseGranted), (title, answer)
                assert not self.tokens[title] or answer.token > self.tokens[title][-1]
                self.tokens[title].append(answer.token)
        self.compare(expected, answers)

    @rule(holder=HOLDERS, pick=PICK, lease_ttl=TTLS)
    def renews(self, holder: str, pick: int, lease_ttl: float) -> None:
        self.row, expected = grants.renew(
            self.row, holder=holder, token=self.token("model", pick), lease_ttl=lease_ttl, now=self.now
        )
        self.compare(
            expected,
            self.on_all(
                lambda backend, title: backend.renew(
                    self.name,
                    holder=holder,
                    token=self.token(title, pick),
                    lease_ttl=lease_ttl,
                    timeout=LONG,
                )
            ),
        )

    @rule(lease_ttl=TTLS)
    def the_holder_renews(self, lease_ttl: float) -> None:
        if self.row.holder:
            self.renews(self.row.holder, 0, lease_ttl)

    @rule(holder=HOLDERS, pick=PICK | st.none(), rest=RESTS, to=st.sampled_from(["", "", "pod-c", "d"]))
    def releases(self, holder: str, pick: int | None, rest: float, to: str) -> None:
        def token(title: str) -> int:
            return 0 if pick is None else self.token(title, pick)

        self.row, expected = grants.release(
            self.row, holder=holder, token=token("model"), at_least_for=rest, now=self.now, to=to
        )
        self.compare(
            expected,
            self.on_all(
                lambda backend, title: backend.release(
                    self.name, holder=holder, token=token(title), at_least_for=rest, to=to, timeout=LONG
                )
            ),
        )

    @rule(rest=RESTS, to=st.sampled_from(["", "host", "process-b"]))
    def the_holder_releases(self, rest: float, to: str) -> None:
        if self.row.holder:
            self.releases(self.row.holder, 0, rest, to)

    @rule(holder=HOLDERS, pick=PICK)
    def checks(self, holder: str, pick: int) -> None:
        expected = grants.check(self.row, holder=holder, token=self.token("model", pick), now=self.now)
        self.compare(
            expected,
            self.on_all(
                lambda backend, title: backend.check(
                    self.name, holder=holder, token=self.token(title, pick), timeout=LONG
                )
            ),
        )

    @rule(pick=PICK, at_once=st.booleans())
    def an_operator_forces(self, pick: int, at_once: bool) -> None:
        self.row, expected, _ = grants.force(
            self.row,
            name=self.name,
            token=self.token("model", pick),
            by="eve",
            at_once=at_once,
            now=self.now,
        )
        self.compare(
            expected,
            self.on_all(
                lambda backend, title: backend.force(
                    self.name, token=self.token(title, pick), by="eve", now=at_once, timeout=LONG
                )
            ),
        )

    @rule(seconds=AGES)
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        self.age(seconds)

    @rule(seconds=st.sampled_from([5, 3600]))
    def the_clock_is_set_back(self, seconds: int) -> None:
        self.now -= seconds
        self.age(-seconds)
        # Whoever decides next saves what is cut; who only looks leaves it as it is.
        self.releases("onlooker", None, 0.0, "")

    # --- what must be so --------------------------------------------------------------------------

    @invariant()
    def it_looks_alike(self) -> None:
        if not self.name:
            return
        expected = grants.view(self.name, self.row, self.now) if self.row.token else None
        self.compare(expected, self.on_all(lambda backend, _: backend.show(self.name, timeout=LONG)))

    def on_all(self, call: Any) -> dict[str, Any]:
        async def all_of_them() -> list[Any]:
            backends = self.worlds.backends
            return await asyncio.gather(*[call(backend, title) for title, backend in backends.items()])

        return dict(zip(self.worlds.backends, self.worlds.runner.run(all_of_them()), strict=True))

    def age(self, seconds: float) -> None:
        async def all_of_them() -> None:
            await asyncio.gather(*[world.age(self.name, seconds) for world in self.worlds.worlds.values()])

        self.worlds.runner.run(all_of_them())

    def token(self, title: str, pick: int) -> int:
        tokens = self.tokens[title]
        return tokens[-1 - pick] if pick < len(tokens) else 1

    def compare(self, expected: Any, answers: dict[str, Any]) -> None:
        wanted = self.plain("model", expected)
        for title, answer in answers.items():
            plain = self.plain(title, answer)
            assert plain[0] == wanted[0], (title, answer, expected)
            assert abs(plain[1] - wanted[1]) < SLACK, (title, answer, expected)

    def plain(self, title: str, answer: Any) -> tuple[Any, float]:
        """What can be compared: a token is its number in the order of grants, a moment a duration."""
        match answer:
            case LeaseGranted():
                return replace(answer, token=self.number(title, answer.token)), 0.0
            case LeaseHeld():
                number = self.number(title, answer.token)
                return replace(answer, token=number, remaining=0.0), answer.remaining
            case NotForced():
                return replace(answer, token=self.number(title, answer.token)), 0.0
            case Forced():
                return "forced", answer.remaining
            case LeaseView():
                same = replace(
                    answer,
                    token=self.number(title, answer.token),
                    granted_at=0.0,
                    renewed_at=0.0,
                    remaining=0.0,
                )
                return same, answer.remaining
        return answer, 0.0

    def number(self, title: str, token: int) -> int:
        tokens = self.tokens[title]
        return tokens.index(token) + 1 if token in tokens else -token


def test_back_ends_and_pure_rules_cannot_be_told_apart(worlds: Worlds) -> None:
    run_state_machine_as_test(
        lambda: Machine(worlds), settings=settings(max_examples=60, stateful_step_count=25)
    )


@pytest.mark.parametrize("step", ["renews", "is refused a renewal", "is asked to leave", "is freed"])
def test_only_steps_that_read_the_queue_end_lapsed_places(worlds: Worlds, step: str) -> None:
    """A place that has lapsed is seen again if the clock is set back, unless a step read the queue meanwhile."""
    machine = Machine(worlds)
    machine.begin()
    machine.asks("a", 250.0 if step != "is refused a renewal" else 130.0, 0.0)
    machine.asks("b", 130.0, 110.0)
    machine.time_passes(160)
    match step:
        case "renews" | "is refused a renewal":
            machine.renews("a", 0, 250.0)
        case "is asked to leave":
            machine.an_operator_forces(0, at_once=False)
        case _:
            machine.an_operator_forces(0, at_once=True)
    machine.it_looks_alike()
    machine.now -= 3600
    machine.age(-3600)
    machine.it_looks_alike()
    assert bool(grants.view(machine.name, machine.row, machine.now).waiting) == (step != "is freed")
