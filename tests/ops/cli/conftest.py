"""A server with a password, entries of every kind on it, and the command line as a process and in this one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from stampede_guard.core.scripts import Granted
from stampede_guard.ops.cli.app import app
from stampede_guard.policy import Policy
from tests.support.guards import Guards
from tests.support.sessions import LONG

ROOT = Path(__file__).resolve().parents[3]
PASSWORD = "hunter2-secret"


@dataclass
class Told:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Operator:
    """`run` is a process of its own; `call` is in this process, in a thread, as commands have event loops of theirs."""

    url: str
    namespace: str
    said: list[str] = field(default_factory=list)

    def run(self, *args: str, **environment: str) -> Told:
        given = {"STAMPEDE_GUARD_URL": self.url, "STAMPEDE_GUARD_NAMESPACE": self.namespace, **environment}
        done = subprocess.run(
            [sys.executable, "-m", "stampede_guard", *args],
            cwd=ROOT,
            env={**os.environ, **given},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.said.append(done.stdout + done.stderr)
        return Told(done.returncode, done.stdout, done.stderr)

    async def call(self, *args: str, input: str | None = None, **environment: str) -> Told:
        given = {"STAMPEDE_GUARD_URL": self.url, "STAMPEDE_GUARD_NAMESPACE": self.namespace, **environment}
        done = await asyncio.to_thread(CliRunner().invoke, app, list(args), input=input, env=given)
        self.said.append(done.stdout + done.stderr)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return Told(done.exit_code, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer(options={"requirepass": PASSWORD}) as started:
        yield started


@pytest.fixture
def operator(server: ValkeyServer, namespace: str) -> Iterator[Operator]:
    made = Operator(server.url, namespace)
    yield made
    assert not [text for text in made.said if PASSWORD in text], "a password was printed"


@dataclass
class Shop:
    """Entries: two fresh values of a function, a failure, a lease with a waiter, and an invalidated one."""

    guard: StampedeGuard
    quality: Any
    runs: list[int]


@pytest.fixture
async def shop(server: ValkeyServer, namespace: str) -> AsyncIterator[Shop]:
    async with Guards(server.url, namespace, deadline=LONG) as guards:
        guard, runs = guards.guard(ttl=300, stale_ttl=600, error_ttl=60), []

        @guard.locked_cache(name="shop.quality")
        async def quality(project: int, region: str = "eu") -> dict[str, int]:
            runs.append(project)
            return {"score": project}

        async def broken() -> None:
            raise LookupError("somebody's private data")

        await quality(7)
        await quality(8, region="x" * 100)
        with pytest.raises(LookupError):
            await guard.get_or_compute("report:broken", broken)
        session = guard.engine.runtime().session
        held = guards.name("slow:1")
        assert isinstance(await session.acquire(held, flight="holder", policy=Policy(lease_ttl=60)), Granted)
        other = guards.guard().engine.runtime().session
        await other.acquire(held, flight="waiter", policy=Policy())
        await session.fallback(held, flight="beside", policy=Policy())
        yield Shop(guard, quality, runs)
