"""XFetch: who is due, and how many are."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stampede_guard.core import scripts
from stampede_guard.core.early import due
from stampede_guard.core.entry import EMPTY, Entry
from stampede_guard.core.scripts import Found, Granted, Held
from tests.core.given import ask, publication

DELTA = 1_000
TTL = 60_000
NEARLY_NEVER = 0.01
"""Refreshes expected before a simulated expiry is looked at. It is the part of a refresh by which a mean may be off."""


def is_due(draw: float, *, left: int, beta: float = 1.0, took_ms: int = DELTA, ttl_ms: int = TTL) -> bool:
    return due(took_ms=took_ms, ttl_ms=ttl_ms, beta=beta, fresh_ms_left=left, draw=draw)


# --- one reader -----------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("left", [1, 500, 1_000, 5_000])
def test_the_chance_to_be_due_is_that_of_the_paper(beta: float, left: int) -> None:
    # P(-delta * beta * ln(u) >= left) = exp(-left / (delta * beta)): the largest u that is due.
    u = math.exp(-left / (DELTA * beta))
    assert is_due(1 - u * 0.999, left=left, beta=beta)
    assert not is_due(1 - u * 1.001, left=left, beta=beta)


@given(draw=st.floats(0, 1, exclude_max=True), left=st.integers(1, TTL), beta=st.floats(0.001, 100))
def test_the_closer_the_end_and_the_larger_beta_the_likelier(draw: float, left: int, beta: float) -> None:
    if is_due(draw, left=left, beta=beta):
        assert is_due(draw, left=left - 1, beta=beta)
        assert is_due(draw, left=left, beta=beta * 2)
        assert is_due(draw, left=left, beta=beta, took_ms=DELTA * 2)


def test_at_the_very_end_everybody_is_due() -> None:
    assert is_due(0.0, left=0)


@given(draw=st.floats(0, 1, exclude_max=True), left=st.integers(0, TTL))
def test_without_beta_or_a_known_time_nobody_is_ever_due(draw: float, left: int) -> None:
    assert not is_due(draw, left=left, beta=0.0)
    assert not is_due(draw, left=left, took_ms=0)
    assert not is_due(draw, left=left, took_ms=-5)
    assert not is_due(draw, left=left, ttl_ms=0)


def test_a_computation_longer_than_half_the_lifetime_counts_as_that() -> None:
    draw = 1 - math.exp(-1.0)
    assert is_due(draw + 1e-9, left=TTL // 2, took_ms=10**8)
    assert not is_due(draw, left=TTL // 2 + 1, took_ms=10**8)


# --- many readers: the number of refreshes per expiry -----------------------------------------------


@dataclass(frozen=True)
class Load:
    """`readers`: reads in the time of one computation. So many that the first is due before it is too late."""

    beta: float
    readers: int

    @property
    def earliest(self) -> int:
        """Milliseconds before the expiry at which fewer than `NEARLY_NEVER` refreshes are behind us."""
        scale = DELTA * self.beta
        return round(scale * math.log(self.readers * self.beta / NEARLY_NEVER))

    def pause(self, random: Random) -> float:
        return random.expovariate(self.readers / DELTA)


LOADS = [Load(0.5, 400), Load(1.0, 100), Load(2.0, 50)]


def refreshes_without_a_lease(load: Load, random: Random) -> int:
    """Of one expiry: all that are begun until the first one is through."""
    left, begun, until = float(load.earliest), 0, -math.inf
    while left > until:
        left -= load.pause(random)
        if is_due(random.random(), left=int(left), beta=load.beta):
            until = max(until, left - DELTA) if begun == 0 else until
            begun += 1
    return begun


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_without_the_lease_e_to_the_power_of_1_over_beta_refreshes_are_begun(load: Load) -> None:
    # The reads are a Poisson process, so those that are due are one of a rate that grows by e every delta * beta. The
    # first comes when the expected number, so far, is E, exponentially distributed with mean 1. A delta later it is
    # E * e^(1/beta): the first, and e^(1/beta) - 1 more while it computes.
    random, cycles = Random(20_150), 1_500
    begun = [refreshes_without_a_lease(load, random) for _ in range(cycles)]
    expected = math.exp(1 / load.beta)
    error = math.sqrt(expected * (expected - 1)) / math.sqrt(cycles)
    assert abs(fmean(begun) - expected) < 4 * error + NEARLY_NEVER * expected


class Fleet:
    """One entry and the real scripts. Whoever is due asks a moment after the read, when much may have happened."""

    def __init__(self, load: Load, random: Random) -> None:
        self.load, self.random = load, random
        self.now = 1_000_000_000.0
        self.entry: Entry = EMPTY
        self.grants: list[int] = []
        self.answers: set[type] = set()
        self._asks: list[tuple[float, int]] = []
        self._publishes: tuple[float, Granted] | None = None
        self._far = False
        self._ask(0)

    def _ask(self, newer_than: int) -> None:
        flight = f"f{len(self.grants)}-{self.now}"
        self.entry, answer = scripts.acquire(
            self.entry, ask(flight, inbox="", newer_than=newer_than), now_us=self._us, listening=None
        )
        self.answers.add(type(answer))
        if isinstance(answer, Granted):
            self.grants.append(newer_than)
            self._publishes = self.now + DELTA, answer
            self.flight = flight

    @property
    def _us(self) -> int:
        return round(self.now * 1000)

    def _publish(self, grant: Granted) -> None:
        outcome = publication(grant, self.flight, total_ms=TTL)
        self.entry, stored, _ = scripts.publish(
            self.entry, replace(outcome, stale_ms=0, took_ms=DELTA), now_us=self._us
        )
        assert stored
        self._publishes = None
        self._far = True

    def step(self) -> None:
        """The next reader, and whatever came before it."""
        self.now += self.load.pause(self.random)
        if self._far and not self._asks:
            # Nothing happens until the end comes near.
            self.now += TTL - self.load.earliest - DELTA
            self._far = False
        if self._publishes is not None and self._publishes[0] <= self.now:
            self._publish(self._publishes[1])
        for at, newer_than in [asked for asked in self._asks if asked[0] <= self.now]:
            self._asks.remove((at, newer_than))
            self._ask(newer_than)
        reading = scripts.read(self.entry, now_us=self._us)
        if reading is not None and is_due(
            self.random.random(), left=reading.remaining_ms, beta=self.load.beta, took_ms=reading.took_ms
        ):
            self._asks.append((self.now + self.random.random() * DELTA / 5, reading.token))


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_with_the_lease_each_value_is_refreshed_exactly_once(load: Load) -> None:
    fleet, cycles = Fleet(load, Random(20_151)), 200
    while len(fleet.grants) <= cycles:
        fleet.step()
    assert len(set(fleet.grants)) == len(fleet.grants), "a value was refreshed twice"
    assert all(before < after for before, after in pairwise(fleet.grants))
    assert fleet.answers == {Granted, Held, Found}, "nobody was ever late, or too late: that proves nothing"
