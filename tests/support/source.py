"""What tagged entries are computed from: a database with one number, which is written while things are under way."""

from __future__ import annotations

import asyncio
from typing import Any

from stampede_guard import StampedeGuard
from tests.support.gate import Gate

__all__ = ["KEY", "TAGS", "Counted", "Source"]

KEY = "report:7"
TAGS = ("project:7", "all")


class Counted:
    """A computation that counts, and gives the number of its run."""

    def __init__(self) -> None:
        self.runs = 0

    async def __call__(self) -> int:
        self.runs += 1
        return self.runs


class Source:
    """A database with one number, and a computation that reads it and may then be held at a gate."""

    def __init__(self) -> None:
        self.number = 1
        self.computed = 0
        self.gate: Gate | None = None

    def __cache_key__(self) -> str:
        return "the database"  # the number is its content

    async def read(self) -> int:
        self.computed += 1
        seen, gate = self.number, self.gate
        if gate is not None:
            await gate.hold()
        return seen

    def ask(self, guard: StampedeGuard, tags: tuple[str, ...] = TAGS, **fields: Any) -> asyncio.Task[int]:
        return asyncio.create_task(guard.get_or_compute(KEY, self.read, tags=tags, **fields))

    async def write(self, guard: StampedeGuard, tag: str = "project:7") -> None:
        self.number += 1
        assert await guard.invalidate_tag(tag) == "done"
