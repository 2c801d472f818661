"""The declared type filters as FastAPI's does: with the cache, every caller gets the JSON that it gets without it."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import json
import sys
import uuid
from pathlib import Path

import pytest
import redis.asyncio

from stampede_guard import Policy, StampedeGuard
from tests.integration.fastapi.cases import CASES, Case, answer, app_of, client_of
from tests.integration.fastapi.models import SECRET
from tests.support.gate import Gate, soon
from tests.support.guards import joined
from tests.support.sessions import patient

Answer = tuple[int, str]
_UNORDERED = (
    "no nones",
    "only set",
    "only set of a dict",
    "set in a larger dict",
    "set of numbers",
    "set whose order changes",
    "sets and tuples",
)
"""Without a cache, too, their JSON has another order each time."""


@dataclasses.dataclass
class Seen:
    """The answers to one case. `first`: the caller whose call was computed, and two that waited for it."""

    plain: Answer
    first: list[Answer] = dataclasses.field(default_factory=list)
    later: dict[str, Answer] = dataclasses.field(default_factory=dict)
    computed: int = 0
    computed_elsewhere: bool = False


@dataclasses.dataclass
class Played:
    seen: dict[str, Seen]
    stored: dict[str, bytes]


class _Play:
    def __init__(self, url: str, namespace: str, *, installed: bool) -> None:
        self.url, self.namespace, self.installed = url, namespace, installed
        self.gates: dict[str, Gate] = {}
        self.computed: collections.Counter[str] = collections.Counter()

    async def entered(self, case: Case) -> None:
        self.computed[case.name] += 1
        if case.name in self.gates:
            await self.gates[case.name].hold()

    async def plain(self) -> dict[str, Seen]:
        async with client_of(app_of(self.entered, None)[0]) as client:
            seen = {case.name: Seen(await answer(client, case)) for case in CASES}
        self.computed.clear()
        return seen

    def guard(self) -> StampedeGuard:
        # What is not stored leaves a mark. On a busy machine, all cases together take longer than it usually lasts.
        return StampedeGuard.from_url(self.url, namespace=self.namespace, policy=Policy(uncacheable_ttl=600))

    async def cached(self, seen: dict[str, Seen]) -> None:
        async with self.guard() as guard, self.guard() as other:
            app, functions = app_of(self.entered, guard, installed=self.installed)
            neighbour, _ = app_of(self.entered, other, installed=self.installed)
            async with client_of(app) as client, client_of(neighbour) as second:
                for case in CASES:
                    gate = self.gates[case.name] = Gate()
                    callers = [asyncio.create_task(answer(client, case)) for _ in range(3)]
                    await gate.arrival()
                    await joined(guard, functions[case.name].key(), 3)
                    gate.open()
                    one = seen[case.name]
                    one.first = await soon(asyncio.gather(*callers))
                    one.later["a hit"] = await answer(client, case)
                    one.later["a hit in another guard"] = await answer(second, case)
                    one.computed = self.computed[case.name]

    async def stored(self) -> dict[str, bytes]:
        """All that the store holds of each case."""
        found: dict[str, bytes] = collections.defaultdict(bytes)
        async with redis.asyncio.Redis.from_url(self.url) as client:
            async for name in client.scan_iter(f"{{{self.namespace}:*", count=1000):
                title = name.decode().split(":")[1]
                if await client.type(name) == b"string":
                    found[title] += await client.get(name) or b""
        return found

    async def __call__(self) -> Played:
        seen = await self.plain()
        await self.cached(seen)
        return Played(seen, await self.stored())


@pytest.fixture(scope="module")
def namespace() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="module")
def played(valkey_url: str, namespace: str) -> Played:
    async def play() -> Played:
        found = await _Play(patient(valkey_url), namespace, installed=True)()
        # Not `-m`: pydantic gives a generic class the module that made it, and that must not be `__main__`.
        source = (
            "import asyncio, sys, tests.integration.fastapi.cases as c; asyncio.run(c.main(*sys.argv[1:]))"
        )
        program = (sys.executable, "-c", source, patient(valkey_url), namespace)
        root = Path(__file__).parents[3]
        process = await asyncio.create_subprocess_exec(*program, cwd=root, stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
        told = json.loads(out)
        for name, (status, text) in told["answers"].items():
            found.seen[name].later["a hit in another process"] = (status, text)
            found.seen[name].computed_elsewhere = name in told["computed"]
        return found

    return asyncio.run(play())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path[1:])
def test_every_caller_gets_the_json_that_it_gets_without_the_cache(case: Case, played: Played) -> None:
    one = played.seen[case.name]
    assert one.plain[0] == case.status
    expected = _unordered(one.plain, case)
    for found in (*one.first, *one.later.values()):
        assert _unordered(found, case) == expected, one
    # It is computed once, unless it cannot be stored.
    assert (one.computed == 1, one.computed_elsewhere) == (not case.served, case.served)
    # What is not declared is in no answer and not in the store.
    stored = played.stored[case.path[1:]]
    assert stored
    assert case.reveals or (
        SECRET.encode() not in stored and SECRET not in str([*one.first, *one.later.values()])
    )


def _unordered(found: Answer, case: Case) -> object:
    status, text = found
    if case.name in _UNORDERED:
        return status, sorted(text)
    return found
