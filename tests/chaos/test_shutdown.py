"""One of several server processes is told to end while it computes for all: nobody notices, nothing is computed twice.

That is promised for SIGTERM, which is what deploys, autoscalers and supervisors send. The process finishes the requests
that it has, its lifespan drains the computations under way, and their values are stored for the others.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.herd import processes
from bench.herd.valkey import free_port
from tests.chaos.fleet import ROOT
from tests.chaos.journal import Journal
from tests.chaos.visitors import Visitor, Visitors

TTL = 0.5
BUSY = 120
"""Seconds for which a process may get nothing done because the machine is busy."""
CLOCKS = 0.005
"""Seconds that the journal's clock and the server's may differ in rounding."""


PAGE = (ROOT / "docs" / "deploying.md").read_text("utf-8")
RECIPES = {
    line.split()[0]: shlex.split(line) for line in re.findall(r"^\w+ shop:app .+$", PAGE, re.MULTILINE)
}
"""The lines of the page, by the server's name."""
MORE = {
    # Their own patience with a process that is not scheduled for seconds ends in SIGKILL, which is another test's.
    "uvicorn": ["--port", "{port}", "--log-level", "warning", "--timeout-worker-healthcheck", f"{BUSY}"],
    "gunicorn": ["--bind", "127.0.0.1:{port}", "--timeout", f"{BUSY}", "--graceful-timeout", f"{BUSY}"],
    "granian": ["--port", "{port}", "--log-level", "warning"],
    "hypercorn": ["--bind", "127.0.0.1:{port}", "--graceful-timeout", f"{BUSY}"],
}


def command(server: str, port: int) -> tuple[list[str], int]:
    """How the page starts it, and how many processes it makes of the app."""
    recipe = RECIPES[server]
    workers = int(recipe[recipe.index("--workers") + 1])
    more = [option.format(port=port) for option in MORE[server]]
    return [server, "tests.chaos.served:app", *recipe[2:], *more], workers


# Not hypercorn: SIGTERM kills a worker of it, which runs no lifespan and no `finally`.
@pytest.mark.parametrize("server", ["uvicorn", "gunicorn", "granian"])
async def test_sigterm_to_the_process_that_computes_costs_no_answer_and_no_computation(
    server: str, valkey_url: str, namespace: str, tmp_path: Path
) -> None:
    journal, port = Journal(tmp_path / "journal"), free_port()
    child = await started(server, port, journal, valkey_url, namespace, tmp_path)
    try:
        first = {line.by for line in journal.lines("process", "up")}
        load = Visitors(port, ["/hot", "/stale"], count=12)
        await end_the_one_that_a_herd_waits_for(port, journal, first)
        for key in ("hot", "stale"):
            await end_the_one_that_computes(key, journal, first)
            await one_more(key, journal)
        await seen(lambda: sum(load.statuses.values()) > 50)
        await load.stop()
        assert set(load.statuses) == {200}
        for key in ("hot", "stale"):
            one_computation_per_expiry(key, journal)
        assert child.running, child.last_words()
    except BaseException:
        print(child.last_words(lines=100))
        raise
    finally:
        child.kill()


@pytest.mark.parametrize("server", ["uvicorn", "gunicorn", "granian", "hypercorn"])
async def test_sigterm_to_the_whole_server_lets_a_herd_have_its_answers(
    server: str, valkey_url: str, namespace: str, tmp_path: Path
) -> None:
    journal, port = Journal(tmp_path / "journal"), free_port()
    child = await started(server, port, journal, valkey_url, namespace, tmp_path)
    try:
        herd = [asyncio.create_task(Visitor(port, persistent=False).get("/cold")) for _ in range(12)]
        await seen(lambda: len(journal.lines("requests", "arrived")) == 12)
        os.kill(child.pid, signal.SIGTERM)
        answers = await asyncio.gather(*herd)
        assert {status for status, _ in answers} == {200}
        assert [body["computation"] for _, body in answers] == journal.computations("cold") * 12
        await seen(lambda: not child.running)
        assert len(ended(journal)) == len(journal.lines("process", "up"))
    except BaseException:
        print(child.last_words(lines=100))
        raise
    finally:
        child.kill()


async def started(
    server: str, port: int, journal: Journal, url: str, namespace: str, place: Path
) -> processes.Child:
    """The server, when all its processes are up."""
    arguments, workers = command(server, port)
    child = processes.start(
        [sys.executable, "-m", *arguments],
        log=place / "log",
        cwd=ROOT,
        env={
            **os.environ,
            "HOME": str(place),  # some versions of gunicorn put a control socket there
            "CHAOS_URL": url,
            "CHAOS_NAMESPACE": namespace,
            "CHAOS_JOURNAL": str(journal.path),
            "CHAOS_TTL": f"{TTL}",
        },
    )
    await seen(lambda: len(journal.lines("process", "up")) >= workers or not child.running)
    assert child.running, child.last_words()
    return child


async def end_the_one_that_a_herd_waits_for(port: int, journal: Journal, first: set[str]) -> None:
    """In all processes."""
    herd = [asyncio.create_task(Visitor(port, persistent=False).get("/cold")) for _ in range(40)]
    await end_the_one_that_computes("cold", journal, first)
    answers = await asyncio.gather(*herd)
    assert {status for status, _ in answers} == {200}
    assert [body["computation"] for _, body in answers] == journal.computations("cold") * 40
    assert len(journal.computations("cold")) == 1


async def end_the_one_that_computes(key: str, journal: Journal, first: set[str]) -> None:
    """One of the `first` processes, because granian ends altogether when one ends that is new."""
    known = len(journal.computations(key))

    def victims() -> list[str]:
        begun = [name.split("#")[0] for name in journal.computations(key)[known:]]
        return [process for process in begun[-1:] if process in first and process not in ended(journal)]

    await seen(victims)
    victim = victims()[0]
    os.kill(int(victim), signal.SIGTERM)
    # Its lifespan has ended, with the guard in it: it was not cut off.
    await seen(lambda: victim in ended(journal))


async def seen(condition: Callable[[], object]) -> None:
    """Wait for what stands in the journal, at a pace that leaves the machine to the servers."""
    async with asyncio.timeout(BUSY):
        while not condition():  # noqa: ASYNC110 - no event tells that another process has written a line
            await asyncio.sleep(0.02)


async def one_more(key: str, journal: Journal) -> None:
    known = len(journal.lines(key, "ended"))
    await seen(lambda: len(journal.lines(key, "ended")) > known)


def ended(journal: Journal) -> list[str]:
    return [line.by for line in journal.lines("process", "down")]


def one_computation_per_expiry(key: str, journal: Journal) -> None:
    """Each begins when the value of the one before is no longer fresh, and none is cut off."""
    # The last one may be under way when nobody asks any more.
    ends = journal.lines(key, "ended")
    starts = journal.lines(key, "started")[: len(ends)]
    assert [line.by for line in starts] == [line.by for line in ends]
    assert len(starts) > 2, "the value has never expired, so nothing is shown"
    for before, after in itertools.pairwise(zip(starts, ends, strict=True)):
        assert after[0].at >= before[1].at + TTL - CLOCKS
