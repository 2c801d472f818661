"""A process that was killed is followed within seconds, where the back end sees that; one that lives never is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import asyncpg  # type: ignore[import-untyped]
import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard.jobs import Jobs, Run
from stampede_guard.leases import PostgresLeases, RedisLeases
from stampede_guard.leases.core import grants
from stampede_guard.leases.core.grants import EMPTY, GONE_FOR, LeaseRow
from stampede_guard.leases.messages import LeaseGranted, LeaseHeld, LeaseRefused, LeaseRequest, Owner, Renewed
from tests.support.gate import until
from tests.support.leases import LONG, ask

AGES = 60.0

# --- the rules


def question(holder: str, *, place: float = 0.0) -> LeaseRequest:
    return LeaseRequest(name="n", holder=holder, owner=Owner(process=holder), lease_ttl=AGES, place=place)


def held(now: float, *, witness: str = "inbox") -> LeaseRow:
    row, answer = grants.ask(EMPTY, question("a"), now, witness=witness)
    assert isinstance(answer, LeaseGranted)
    return row


def test_a_holder_that_is_gone_at_two_questions_far_enough_apart_is_followed() -> None:
    row, answer = grants.ask(held(100.0), question("b"), 101.0, gone=True)
    assert isinstance(answer, LeaseHeld) and answer.remaining == pytest.approx(GONE_FOR)
    row, answer = grants.ask(row, question("b"), 101.0 + GONE_FOR / 2, gone=True)
    assert isinstance(answer, LeaseHeld)
    row, answer = grants.ask(row, question("b"), 101.0 + GONE_FOR, gone=True)
    assert isinstance(answer, LeaseGranted) and answer.token > 100_000_000
    _, renewed = grants.renew(row, holder="a", token=100_000_000, lease_ttl=AGES, now=105.0)
    assert renewed == LeaseRefused("taken"), "who comes back learns it"


@pytest.mark.parametrize("sign", ["renewal", "seen again", "asked again"])
def test_a_sign_of_life_takes_the_doubt_back(sign: str) -> None:
    row, _ = grants.ask(held(100.0), question("b"), 101.0, gone=True)
    match sign:
        case "renewal":
            row, _ = grants.renew(
                row, holder="a", token=row.token, lease_ttl=AGES, now=102.0, witness="inbox"
            )
        case "asked again":
            row, _ = grants.ask(row, question("a"), 102.0, witness="inbox")
        case _:
            row, _ = grants.ask(row, question("b"), 102.0, gone=False)
    row, answer = grants.ask(row, question("b"), 101.0 + GONE_FOR + 1, gone=True)
    assert isinstance(answer, LeaseHeld) and row.holder == "a"


def test_a_holder_that_renews_without_a_witness_is_protected_by_its_deadline() -> None:
    row, _ = grants.renew(held(100.0), holder="a", token=100_000_000, lease_ttl=AGES, now=101.0)
    for second in range(102, 161):
        row, answer = grants.ask(row, question("b"), float(second), gone=True)
        assert isinstance(answer, LeaseHeld), second
    _, answer = grants.ask(row, question("b"), 161.0, gone=True)
    assert isinstance(answer, LeaseGranted)


def test_who_was_granted_without_a_witness_is_never_followed_before_its_deadline() -> None:
    row = held(100.0, witness="")
    for second in range(101, 160):
        row, answer = grants.ask(row, question("b"), float(second), gone=True)
        assert isinstance(answer, LeaseHeld)


def test_a_clock_that_is_set_back_between_the_questions_begins_the_doubt_anew() -> None:
    row, _ = grants.ask(held(100.0), question("b"), 130.0, gone=True)
    row, answer = grants.ask(row, question("b"), 110.0, gone=True)
    assert isinstance(answer, LeaseHeld) and row.missing_since == 110.0


Step = tuple[str, float]


def explore(rule: Any = grants.ask) -> set[str]:
    """What may happen in every order to one holder and one who asks, second by second; the faults that were found.

    The holder lives or is killed. Its connection breaks and comes back; while it lives it renews within a second of
    either.
    """
    faults: set[str] = set()
    frontier = {(held(100.0), 100, True, True, False)}
    for _ in range(9):
        following: set[tuple[LeaseRow, int, bool, bool, bool]] = set()
        for row, now, alive, connected, owing in frontier:
            for event in ("pass", "kill", "break", "reconnect", "ask", "renew"):
                then, lives, there, owes, after = now, alive, connected, owing, row
                if event == "pass":
                    then, owes = now + 1, False
                    if alive and owing:
                        # It has seen its connection go or come, and renews by the other one.
                        witness = "inbox" if connected else ""
                        after, _ = grants.renew(
                            row, holder="a", token=row.token, lease_ttl=AGES, now=float(then), witness=witness
                        )
                elif event == "kill":
                    lives = there = False
                elif event == "break":
                    there, owes = False, True
                elif event == "reconnect":
                    there, owes = lives, True
                elif event == "renew" and alive:
                    witness = "inbox" if connected else ""
                    after, _ = grants.renew(
                        row, holder="a", token=row.token, lease_ttl=AGES, now=float(then), witness=witness
                    )
                elif event == "ask":
                    after, answer = rule(row, question("b"), float(then), gone=not connected)
                    if isinstance(answer, LeaseGranted):
                        if alive and now < 100 + AGES:
                            faults.add("two believe")
                        continue
                following.add((after, then, lives, there, owes))
        frontier = following
    return faults


def test_in_no_order_is_a_holder_followed_that_lives_and_reaches_the_back_end() -> None:
    assert explore() == set()


def test_the_search_finds_what_one_sighting_alone_would_do() -> None:
    def hasty(row: LeaseRow, asked: LeaseRequest, now: float, *, gone: bool) -> Any:
        return grants.ask(replace(row, missing_since=now - GONE_FOR) if gone else row, asked, now, gone=gone)

    assert explore(hasty) == {"two believe"}


# --- on servers


@pytest.fixture(params=["postgres", "valkey"])
async def url(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    if request.param == "postgres":
        yield request.getfixturevalue("postgres_url")
    else:
        server: ValkeyServer = request.getfixturevalue("own_valkey")
        yield server.url


def leases_of(url: str, namespace: str) -> PostgresLeases | RedisLeases:
    if url.startswith("postgres"):
        return PostgresLeases.from_url(url, namespace=namespace)
    return RedisLeases.from_url(url, namespace=namespace, restart="trust")


@contextlib.asynccontextmanager
async def another_process(url: str, namespace: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """It runs the job `once`, which never ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.traps.test_leases_handover", url, namespace,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert (await process.stdout.readline()).strip() == b"runs"
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def jobs_of(leases: PostgresLeases | RedisLeases, ran: list[Run], *, for_ever: bool = False) -> Jobs:
    jobs = Jobs(leases)

    @jobs.cron("0 0 1 1 *", name="once")
    async def once(run: Run) -> None:
        ran.append(run)
        if for_ever:
            await asyncio.sleep(3600)

    return jobs


async def main(url: str, namespace: str) -> None:
    leases = leases_of(url, namespace)
    if isinstance(leases, PostgresLeases):
        await leases.create_schema()
    ran: list[Run] = []
    jobs = jobs_of(leases, ran, for_ever=True)
    backend: Any = leases.part().backend
    # The sign of life is what this is about.
    await until(lambda: bool(backend.ear.witness if hasattr(backend, "ear") else backend.scripts.witness))
    task = asyncio.create_task(jobs.run_now("once"))
    await until(lambda: bool(ran))
    print("runs", flush=True)
    await task


async def test_a_run_that_was_killed_hands_over_long_before_its_lease_ends(url: str, namespace: str) -> None:
    leases = leases_of(url, namespace)
    ran: list[Run] = []
    jobs = jobs_of(leases, ran)
    try:
        async with another_process(url, namespace) as killed:
            assert (await jobs.run_now("once")).outcome == "skipped", "it lives"
            view = await leases.show("once")
            assert view is not None and view.remaining > 45
            killed.send_signal(signal.SIGKILL)
            await killed.wait()
            async with asyncio.timeout(30):
                while (await jobs.run_now("once")).outcome == "skipped":
                    pass  # one that the server has not yet seen go
        assert len(ran) == 1
        after = await leases.show("once")
        assert after is not None and after.token > view.token
    finally:
        await jobs.stop()
        await leases.aclose()


async def test_a_run_that_stands_still_keeps_its_lease(url: str, namespace: str) -> None:
    leases = leases_of(url, namespace)
    ran: list[Run] = []
    jobs = jobs_of(leases, ran)
    try:
        async with another_process(url, namespace) as stopped:
            os.kill(stopped.pid, signal.SIGSTOP)
            for _ in range(3):
                assert (await jobs.run_now("once")).outcome == "skipped"
            view = await leases.show("once")
            assert view is not None and view.held
            backend: Any = leases.part().backend
            answer = await backend.acquire(ask(f"{namespace}:once", "x"), timeout=LONG)
            assert isinstance(answer, LeaseHeld) and answer.remaining > GONE_FOR
        assert ran == []
    finally:
        await jobs.stop()
        await leases.aclose()


async def test_a_holder_whose_connection_breaks_says_so_at_once_and_keeps_its_lease(
    url: str, namespace: str
) -> None:
    one, other = leases_of(url, namespace), leases_of(url, namespace)
    try:
        if isinstance(one, PostgresLeases):
            await one.create_schema()
        backend: Any = one.part().backend
        asking: Any = other.part().backend
        sign = (lambda: backend.ear.witness) if hasattr(backend, "ear") else (lambda: backend.scripts.witness)
        await until(lambda: bool(sign()))
        heard: list[str] = []
        backend.on_freed(heard.append)
        name = f"{namespace}:kept"
        granted = await backend.acquire(replace(ask(name, "a"), handed_over=True), timeout=LONG)
        assert isinstance(granted, LeaseGranted)
        if hasattr(backend, "ear"):
            backend.ear._connection.terminate()
        else:
            backend.scripts._opened._inbox._connection._writer.close()
        await until(lambda: name in heard)
        renewed = await backend.renew(name, holder="a", token=granted.token, lease_ttl=60, timeout=LONG)
        assert renewed == Renewed()
        answer = await asking.acquire(ask(name, "b"), timeout=LONG)
        assert isinstance(answer, LeaseHeld) and answer.remaining > GONE_FOR
    finally:
        await one.aclose()
        await other.aclose()


async def test_a_sign_of_life_in_another_database_says_nothing_of_the_holder(
    postgres_url: str, namespace: str
) -> None:
    """`listen=` leads past a pooler, to whatever database that URL names. Advisory locks are each database's own."""
    outside = await asyncpg.connect(postgres_url)
    other_database = f"other_{namespace.replace('-', '_')}"
    await outside.execute(f'CREATE DATABASE "{other_database}"')
    listening = urlsplit(postgres_url)._replace(path=f"/{other_database}").geturl()
    one = PostgresLeases.from_url(postgres_url, namespace=namespace, listen=listening)
    other = PostgresLeases.from_url(postgres_url, namespace=namespace)
    try:
        await one.create_schema()
        backend: Any = one.part().backend
        await until(lambda: bool(backend.ear.witness))
        name = f"{namespace}:kept"
        granted = await backend.acquire(replace(ask(name, "a"), handed_over=True), timeout=LONG)
        assert isinstance(granted, LeaseGranted)
        asking: Any = other.part().backend
        answer = await asking.acquire(ask(name, "b"), timeout=LONG)
        assert isinstance(answer, LeaseHeld) and answer.remaining > GONE_FOR
    finally:
        await one.aclose()
        await other.aclose()
        await outside.execute(f'DROP DATABASE "{other_database}" WITH (FORCE)')
        await outside.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
