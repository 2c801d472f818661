"""Real processes that contend for one lease while they, the network and the servers are struck: never two believers.

All of them are on one machine, and write down on its one monotonic clock when they believed. Two leases are taken apart
by their tokens; between the last moment of one and the first of the next there may be anything but an overlap.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import redis.asyncio

from bench.herd import processes
from bench.herd.postgres import PostgresServer
from bench.herd.valkey import ValkeyServer
from bench.journal import Journal
from stampede_guard.leases import PostgresLeases
from tests.leases.contender import NAME, leases_at
from tests.support import forked
from tests.support.plainproxy import PlainProxy

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 90.0
TTL = 1.5
CONTENDERS = 3


class Contest:
    """Contenders for one lease, and what they believed."""

    def __init__(self, url: str, namespace: str, journal: Journal) -> None:
        self.url = url
        self.namespace = namespace
        self.journal = journal
        self.children: list[processes.Child] = []

    def start(self) -> processes.Child:
        given = (self.url, self.namespace, str(self.journal.path), str(TTL))
        child = forked.start("tests.leases.contender", *given, log=self.journal.path.with_suffix(".log"))
        self.children.append(child)
        return child

    def beliefs(self) -> dict[int, list[tuple[float, int]]]:
        """By token: each moment of belief, and whose it was."""
        found: dict[int, list[tuple[float, int]]] = {}
        for line in self.journal.lines(NAME):
            token, moment = line.what.split()
            found.setdefault(int(token), []).append((float(moment), int(line.by)))
        return found

    @property
    def tokens(self) -> int:
        return len(self.beliefs())

    async def until_tokens(self, more: int) -> None:
        """Until the lease has been won so many times more."""
        wanted = self.tokens + more
        async with asyncio.timeout(PATIENCE):
            while self.tokens < wanted:
                assert all(child.process.poll() in (None, -signal.SIGKILL) for child in self.children), (
                    self.children[0].last_words(lines=30)
                )
                await asyncio.sleep(0.05)

    async def holder(self) -> processes.Child:
        """The one who has it now, as far as was written."""
        async with asyncio.timeout(PATIENCE):
            while True:
                seen = len(self.journal.lines(NAME))
                while len(lines := self.journal.lines(NAME)) == seen:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                for child in self.children:
                    if child.pid == lines[-1].by and child.running:
                        return child

    def judge(self) -> None:
        spans = []
        for token, moments in sorted(self.beliefs().items()):
            assert len({by for _, by in moments}) == 1, f"token {token} was given twice"
            spans.append((token, min(moments)[0], max(moments)[0]))
        assert spans
        for (first, _, ended), (second, began, _) in itertools.pairwise(spans):
            assert ended < began, f"{first} was believed in until {ended}, {second} from {began} on"


@pytest.fixture(params=["postgres", "valkey"])
async def store(
    request: pytest.FixtureRequest, namespace: str
) -> AsyncIterator[tuple[str, PlainProxy, PostgresServer | ValkeyServer]]:
    """A server of this test alone, behind a proxy: the URL through it, the proxy, the server."""
    with contextlib.ExitStack() as stack:
        server: PostgresServer | ValkeyServer
        if request.param == "postgres":
            server = stack.enter_context(PostgresServer())
            direct = leases_at(server.url, namespace)
            assert isinstance(direct, PostgresLeases)
            await direct.create_schema()
            await direct.aclose()
        else:
            server = stack.enter_context(ValkeyServer())
        async with PlainProxy(server.port) as proxy:
            yield server.url.replace(str(server.port), str(proxy.port)), proxy, server


@pytest.fixture
def contest(
    store: tuple[str, PlainProxy, PostgresServer | ValkeyServer], namespace: str, tmp_path: Path
) -> Iterator[Contest]:
    made = Contest(store[0], namespace, Journal(tmp_path / "beliefs"))
    for _ in range(CONTENDERS):
        made.start()
    yield made
    for child in made.children:
        child.kill()


async def test_tokens_grow_and_never_two_believe_while_holders_are_frozen_and_killed(
    contest: Contest,
) -> None:
    await contest.until_tokens(2)
    for strike in (signal.SIGSTOP, signal.SIGKILL, signal.SIGSTOP, signal.SIGKILL):
        faulty = await contest.holder()
        faulty.send(strike)
        await contest.until_tokens(2)
        # It wakes up long after somebody else has it, in the middle of its body.
        faulty.send(signal.SIGCONT)
        if strike == signal.SIGKILL:
            contest.start()
    await contest.until_tokens(3)
    contest.judge()


async def test_never_two_believe_while_the_network_fails(
    contest: Contest, store: tuple[str, PlainProxy, PostgresServer | ValkeyServer]
) -> None:
    proxy = store[1]

    def cut_half() -> object:
        return proxy.cut(lambda _: random.random() < 0.5)

    faults: list[Callable[[], object]] = [proxy.half_open, proxy.black_hole, proxy.cut, proxy.deaf, cut_half]
    await contest.until_tokens(2)
    for fault in faults:
        await contest.holder()
        fault()
        # Longer than a lease: whoever believed has lost it, or somebody else has won it.
        await asyncio.sleep(1.2 * TTL)
        proxy.heal()
        await contest.until_tokens(2)
    contest.judge()


async def test_never_two_believe_while_the_server_is_restarted(
    contest: Contest, store: tuple[str, PlainProxy, PostgresServer | ValkeyServer]
) -> None:
    _, proxy, server = store
    await contest.until_tokens(2)
    for crash in (True, False, True):
        await contest.holder()
        if isinstance(server, PostgresServer):
            await asyncio.to_thread(server.restart, crash=crash)
            proxy.target = server.port
        else:
            await asyncio.to_thread(server.restart, keep_data=not crash)
        await contest.until_tokens(2)
    contest.judge()


async def test_a_forked_child_neither_has_its_parents_lease_nor_disturbs_it(
    store: tuple[str, PlainProxy, PostgresServer | ValkeyServer], namespace: str
) -> None:
    url, _, server = store
    if isinstance(server, ValkeyServer):
        # Not a server that has only just been started.
        async with redis.asyncio.Redis.from_url(server.url) as client:
            run = f"{(await client.info('server'))['run_id']}.{(await client.info('replication'))['master_replid']}"
            await client.hset(f"{{{namespace}.leases}}:life", mapping={"run": run, "since": "1"})  # type: ignore[misc]
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.leases.forking", url, namespace, cwd=ROOT,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    told, errors = await asyncio.wait_for(done.communicate(), PATIENCE)
    assert told.decode().split() == ["child:Lost", "child:taken", "parent:held", "parent:renewed"], (
        errors.decode()
    )
