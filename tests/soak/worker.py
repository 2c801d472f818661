"""One process of the soak: `python -m tests.soak.worker URL FOLDER LABEL SECONDS SEED [MUTANT]`.

Some tasks call functions at random, one changes the source and invalidates, one watches whether the event loop gets on.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import sys
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

from stampede_guard import StampedeGuard, WaitTimeout
from stampede_guard.errors import StampedeError, StoreRefused
from tests.soak.functions import L1_SECONDS, LIMITS, POLICY, Functions, SourceFailed
from tests.soak.journal import Call, Fault, Invalidation, Journal, Lifetime, now
from tests.soak.source import FUNCTIONS, ITEMS, USERS, Source, key_of

__all__ = ["Worker", "work"]

TOLERATED = {"l1": L1_SECONDS, "aside": 5.0}
"""Seconds: copies in the process; and a bypassed flight, which nobody elsewhere can end."""
CALLERS = 6
LATE_SECONDS = 0.4
"""A turn of the event loop that takes longer is a fault of its own: renewals and wake-ups wait for it."""


class Worker:
    def __init__(self, guard: StampedeGuard, folder: Path, label: str, seed: int) -> None:
        self._label = label
        self._journal = Journal(folder / f"{label}.jsonl")
        self._source = Source(folder / "source")
        self._draw = random.Random(seed)
        self._functions = Functions(guard, self._source, self._journal, label, seed)
        self._numbers = itertools.count(1)
        self._guard = guard

    async def run(self, seconds: float) -> None:
        began = now()
        ends = began + seconds
        async with self._guard:
            with contextlib.suppress(StampedeError):
                await self._functions.warm()
            tasks = [self._until(ends, self._call_once) for _ in range(CALLERS)]
            await asyncio.gather(*tasks, self._until(ends, self._change_once), self._watch(ends))
        self._guard.close()
        self._journal.write(Lifetime(self._label, began, now(), clean=True))

    async def _until(self, ends: float, step: Any) -> None:
        while now() < ends:
            await step()
            await asyncio.sleep(self._draw.random() * 0.02)

    async def _watch(self, ends: float) -> None:
        while now() < ends:
            before = now()
            await asyncio.sleep(0.05)
            if now() - before > 0.05 + LATE_SECONDS:
                self._journal.write(Fault("late loop", before, now(), away=True, process=self._label))

    def _place(self) -> tuple[str, str, int]:
        return self._draw.choice(FUNCTIONS), self._draw.choice(USERS), self._draw.choice(ITEMS)

    async def _call_once(self) -> None:
        function, user, item = self._place()
        draw = self._draw.random()
        call = Call(
            self._label,
            next(self._numbers),
            key_of(function, user, item),
            now(),
            tolerates=TOLERATED.get(function, 0.0),
        )
        asked: Awaitable[Any]
        if function in ("quality", "l1") and draw < 0.02:
            call = replace(call, kind="refresh")
            asked = self._functions.refresh(function, user, item)  # type: ignore[arg-type]
        else:
            asked = self._functions.call(function, user, item)
        self._journal.write(call)
        leaves = self._draw.random() * 0.1 if function != "plain" and draw > 0.9 else None
        self._journal.write(replace(await self._answered(call, asked, leaves), ended=now()))

    async def _answered(self, call: Call, asked: Awaitable[Any], leaves: float | None) -> Call:
        """The call with its outcome. `leaves`: seconds after which its caller is cancelled."""
        task = asyncio.ensure_future(asked)
        try:
            if leaves is not None and task not in (await asyncio.wait({task}, timeout=leaves))[0]:
                task.cancel()
            value = await task
        except asyncio.CancelledError:
            return replace(call, outcome="cancelled")
        except SourceFailed as error:
            return replace(call, outcome="source failed", found_key=str(error))
        except WaitTimeout as error:
            return replace(call, outcome="timed out", error=f"{type(error).__name__}: {error}")
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if "SourceFailed" in text:
                return replace(call, outcome="source failed", found_key=text.rpartition(" ")[2])
            return replace(call, outcome="other error", error=text)
        return replace(call, outcome="value", found_key=value["key"], version=value["version"])

    async def _change_once(self) -> None:
        """The source changes, then the cache hears of it."""
        function, user, item = self._place()
        await asyncio.sleep(self._draw.random() * 0.1)
        whole_tag = function == "quality" and self._draw.random() < 0.5
        keys = tuple(key_of(function, each, item) for each in (USERS if whole_tag else (user,)))
        versions = tuple(self._source.write(key) for key in keys)
        began, answer = now(), "failed"
        try:
            if whole_tag:
                answer = await self._functions.invalidate_tag(item)
            else:
                answer = await self._functions.invalidate(function, user, item)
        except StoreRefused:
            answer = "refused"
        except StampedeError:
            pass
        self._journal.write(Invalidation(self._label, keys, versions, began, now(), answer))  # type: ignore[arg-type]


def work(url: str, folder: Path, label: str, seconds: float, seed: int, mutant: str = "") -> None:
    if mutant:
        from tests.soak.mutants import MUTANTS

        MUTANTS[mutant].apply()
    guard = StampedeGuard.from_url(url, namespace="soak", policy=POLICY, limits=LIMITS)
    asyncio.run(Worker(guard, folder, label, seed).run(seconds))


if __name__ == "__main__":
    work(sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]), int(sys.argv[5]), *sys.argv[6:])
