"""What it costs to watch a fleet: `python -m bench.scale.watching [hits|memory|fleet|prices ...] [--json PATH]`.

hits     the processor time of a hit with a hook, with `stats=True`, and while somebody watches, beside a hit without
memory   a process with 1,000 functions and 100,000 keys, with everything counted and with nothing
fleet    what a viewer adds to the commands and the processor of a server with 8 processes
prices   the server's processor per publication, and what 10,000 processes add up to

The times of a hit are processor time in alternating chunks, so other programs on the machine matter little.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import redis

from bench.herd.story import machine
from bench.herd.valkey import ValkeyServer, product
from bench.micro.commands import CommandCount
from stampede_guard import Policy, StampedeGuard
from stampede_guard.events import Event
from stampede_guard.ops.cli.servers import console_at, session_at
from stampede_guard.ops.fleet.viewer import WINDOW_SLOTS, Viewer
from stampede_guard.policy import Limits
from stampede_guard.stores.fleet.series import MOST_FIELDS, WATCHED

__all__ = ["main", "prices_of_watching"]

Call = Callable[[int], Awaitable[Any]]
CHUNKS, ROUNDS, CALLERS = 40, 12, 64
FUNCTIONS, KEYS, AT_ONCE = 1_000, 100_000, 100
PROCESSES, SECONDS, SETTLING = 8, 10.0, 7.0
LARGE = 10_000


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale.watching", description="What it costs to watch a fleet."
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all without")
    parser.add_argument("--json", type=Path, help="where the figures go, too")
    given = parser.parse_args(arguments)
    rows = []
    with ValkeyServer() as server:
        with server.client() as client:
            setting = f"{machine()}; {product(client.info('server'))}"
        for part in given.parts or list(PARTS):
            for row in PARTS[part](server.url):
                print(f"| {' | '.join(row)} |", flush=True)
                rows.append(row)
    if given.json is not None:
        given.json.write_text(json.dumps({"setting": setting, "rows": rows}, indent=1) + "\n", "utf-8")


# --- a hit -----------------------------------------------------------------------------------------


def _hook(event: Event) -> None:
    """The least that a hook can do."""


def hits(url: str) -> list[tuple[str, str]]:
    return asyncio.run(_hits(url))


async def _hits(url: str) -> list[tuple[str, str]]:
    async with AsyncExitStack() as stack:
        calls: dict[str, Call] = {}
        for name, options, watched in (
            ("nothing", {}, False),
            ("a hook that does nothing", {"hooks": (_hook,)}, False),
            ("`stats=True`", {"stats": True}, False),
            ("while somebody watches", {}, True),
            ("`stats=True`, while somebody watches", {"stats": True}, True),
        ):
            namespace = f"cost-{len(calls)}"
            guard = await stack.enter_async_context(
                StampedeGuard.from_url(url, namespace=namespace, **options)
            )
            calls[name] = guard.locked_cache(ttl=3600)(_value)
            await calls[name](0)
            if watched:
                console = await stack.enter_async_context(console_at(url))
                session = await stack.enter_async_context(session_at(url))
                await stack.enter_async_context(Viewer(console, session, namespace))
            while guard.engine.hooks.any != (bool(options) or watched):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        rows = []
        for work, arm in (("alone in its tick", _sequential), ("one of 64 in a tick", _steady)):
            taken = await _alternating(calls, arm)
            base = taken["nothing"]
            rows.append((f"a hit, {work}", f"{statistics.median(base):.1f} us"))
            for name, micros in list(taken.items())[1:]:
                more = statistics.median(one - other for one, other in zip(micros, base, strict=True))
                rows.append((f"a hit, {work}: {name}", f"{more:+.2f} us"))
        return rows


async def _value(number: int) -> dict[str, int]:
    return {"number": number}


async def _alternating(
    calls: dict[str, Call], arm: Callable[[Call], Awaitable[int]]
) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in calls}
    gc.disable()
    try:
        for chunk in range(CHUNKS + 1):
            for name, call in calls.items():
                before = time.process_time()
                made = await arm(call)
                if chunk:
                    taken[name].append((time.process_time() - before) / made * 1e6)
            gc.collect()
    finally:
        gc.enable()
    return taken


async def _sequential(call: Call) -> int:
    for _ in range(150):
        await call(0)
    return 150


async def _steady(call: Call) -> int:
    async def caller() -> None:
        for _ in range(ROUNDS):
            await call(0)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return ROUNDS * CALLERS


# --- memory ----------------------------------------------------------------------------------------


def memory(url: str) -> list[tuple[str, str]]:
    ways = ("counted", "plain")
    started = [_process("memory", url, way) for way in ways]
    megabytes = {way: json.loads(_end(one)) for way, one in zip(ways, started, strict=True)}
    what = f"{FUNCTIONS:,} functions and {KEYS:,} keys"
    return [
        (f"memory of a process with {what}, nothing counted", f"{megabytes['plain']:.1f} MB"),
        ("the same with `stats=True`, while somebody watches", f"{megabytes['counted']:.1f} MB"),
    ]


async def _fill(url: str, way: str) -> None:
    counted = way == "counted"
    namespace = f"cost-memory-{way}"
    limits, policy = Limits(last_value_bytes=0), Policy(ttl=1.0)
    async with AsyncExitStack() as stack:
        guard = StampedeGuard.from_url(url, namespace=namespace, stats=counted, limits=limits, policy=policy)
        await stack.enter_async_context(guard)
        functions = [
            guard.locked_cache(name=f"shop.function_{number}")(_value) for number in range(FUNCTIONS)
        ]
        if counted:
            console = await stack.enter_async_context(console_at(url))
            session = await stack.enter_async_context(session_at(url))
            await stack.enter_async_context(Viewer(console, session, namespace))

        async def caller(first: int) -> None:
            for key in range(first, KEYS, AT_ONCE):
                await functions[key % FUNCTIONS](key)

        await asyncio.gather(*(caller(first) for first in range(AT_ONCE)))
        assert not counted or guard.engine.hooks.any
        gc.collect()
        print(json.dumps(psutil.Process().memory_info().rss / 1e6))


# --- a fleet ---------------------------------------------------------------------------------------


def fleet(url: str) -> list[tuple[str, str]]:
    workers = [_process("worker", url, "") for _ in range(PROCESSES)]
    try:
        for worker in workers:
            assert worker.stdout is not None
            worker.stdout.readline()
        return asyncio.run(_fleet(url))
    finally:
        for worker in workers:
            _end(worker)


async def _fleet(url: str) -> list[tuple[str, str]]:
    await asyncio.sleep(SETTLING)
    without = await _load(url)
    async with (
        console_at(url) as console,
        session_at(url) as session,
        Viewer(console, session, "cost-fleet") as watch,
    ):
        looking = asyncio.create_task(_look(watch))
        await asyncio.sleep(SETTLING)
        watched = await _load(url)
        looking.cancel()
        seen = await watch.look()
    assert seen.processes == PROCESSES, seen.processes
    return [
        (
            f"{PROCESSES} processes with {seen.rate(seen.all.calls):,.0f} calls per second: commands per second",
            f"{without[0]:.1f}, watched {watched[0]:.1f}",
        ),
        (
            "the server's processor",
            f"{without[1] / 10:.2f} %, watched {watched[1] / 10:.2f} %",
        ),
    ]


async def _look(watch: Viewer) -> None:
    """As `stampede-guard top` does."""
    while True:
        await watch.look()
        await watch.happened()
        await asyncio.sleep(1.0)


async def _load(url: str) -> tuple[float, float]:
    """Commands from clients per second. Then, without MONITOR, the server's milliseconds of processor per second."""
    began = time.monotonic()
    with CommandCount(url) as sent:
        await asyncio.sleep(SECONDS)
    commands = sent.total / (time.monotonic() - began)
    with redis.Redis.from_url(url) as client:
        before, began = _cpu(client), time.monotonic()
        await asyncio.sleep(SECONDS)
        return commands, (_cpu(client) - before) / (time.monotonic() - began) * 1e3


def _cpu(client: redis.Redis) -> float:
    cpu: dict[str, Any] = client.info("cpu")
    return float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])


async def _work(url: str) -> None:
    """One process: hits of twenty functions, and a herd of the whole fleet every two seconds."""
    async with StampedeGuard.from_url(url, namespace="cost-fleet") as guard:
        functions = [
            guard.locked_cache(ttl=600 if number else 2, name=f"shop.function_{number}")(_value)
            for number in range(20)
        ]
        ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
        await asyncio.gather(*(function(key) for function in functions for key in range(1, 5)))
        print("ready", flush=True)
        number = 0
        while not ended.done():
            number += 1
            await asyncio.gather(functions[0](0), *(functions[number % 20](key) for key in range(1, 5)))
            await asyncio.wait({ended}, timeout=0.25)


# --- prices ----------------------------------------------------------------------------------------


def prices(url: str) -> list[tuple[str, str]]:
    return asyncio.run(prices_of_watching(url))


async def prices_of_watching(url: str, *, count: int = 3000) -> list[tuple[str, str]]:
    # Ten thousand fields in one command take a busy machine longer than a guard would wait.
    async with console_at(url) as console, session_at(f"{url}?socket_timeout=30") as session:
        with redis.Redis.from_url(url) as client:
            slot = int(await console.now() // WATCHED.seconds)
            kinds = ("hits", "misses", "computations", "micros", "collapsed", "took3", "took4", "waited4")
            numbers = {f"{kind}:shop.function_{number}": 3 for number in range(5) for kind in kinds}
            numbers |= {f"hot:shop.function_1\n#{number:016x}": 5 for number in range(10)}
            numbers |= {f"runs:shop.function_{number}\non": 1 for number in range(5)}
            numbers |= {f'policy:shop.function_{number}\n{{"ttl":300.0}}': 1 for number in range(5)}
            numbers |= {"processes:": 1, "in_flight:": 2, "ok:": 1}
            line = json.dumps(
                {
                    "process": "pod/host/12345", "kind": "published", "function": "shop.function_1",
                    "key": "#0123456789abcdef", "flight": "a" * 22, "stored": True, "token": 2**50,
                }
            )  # fmt: skip
            sums = await _price(
                client, lambda: session.count("cost-prices", WATCHED, slot, numbers), count=count
            )
            lines = await _price(client, lambda: session.tell("cost-prices", [(5, line)] * 10), count=count)
            # The prices above took longer than a slot lives on a busy machine.
            slot = int(await console.now() // WATCHED.seconds)
            crowded = {f"hot:shop.function_1\n#{number:016x}": 5 for number in range(MOST_FIELDS)}
            await session.count("cost-crowd", WATCHED, slot, crowded)
            read = await _price(
                client, lambda: console.slots_of("cost-crowd", WATCHED, [slot]), count=30, at_once=1
            )
    publications = LARGE / WATCHED.seconds
    # The third command: a computation that begins is told at once.
    share = publications * (sums + 2 * lines) / 1e6
    looked = WINDOW_SLOTS * read / 1e6
    return [
        (f"one publication of {len(numbers)} numbers", f"{sums:.0f} us of the server"),
        ("one publication of 10 lines of herds", f"{lines:.0f} us of the server"),
        (f"one slot with {MOST_FIELDS:,} fields, read by a viewer", f"{read / 1e3:.1f} ms of the server"),
        (
            f"{LARGE:,} processes, each with herds (calculated): commands per second",
            f"{3 * publications:,.0f}",
        ),
        ("the server's processor for them (calculated)", f"{share:.0%} of one core"),
        ("and for a viewer that looks once a second (calculated)", f"at most {looked:.0%} of one core"),
    ]


async def _price(
    client: redis.Redis, send: Callable[[], Awaitable[Any]], *, count: int, at_once: int = 20
) -> float:
    """Microseconds of the server's processor."""
    await send()
    before = _cpu(client)
    for _ in range(count // at_once):
        await asyncio.gather(*(send() for _ in range(at_once)))
    return (_cpu(client) - before) / (count // at_once * at_once) * 1e6


# --- processes -------------------------------------------------------------------------------------

PARTS = {"hits": hits, "memory": memory, "fleet": fleet, "prices": prices}


def _process(what: str, url: str, way: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.scale.watching", f"--{what}", url, way]
    root = Path(__file__).resolve().parents[2]
    return subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _end(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=600)
    if process.returncode:
        raise RuntimeError("a process that is measured failed; what it said stands above")
    return said


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--memory", url, way]:
            asyncio.run(_fill(url, way))
        case ["--worker", url, _]:
            asyncio.run(_work(url))
        case parts:
            main(parts)
