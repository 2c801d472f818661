"""One half of a pair, in a process of its own: `python -m tests.migrating.program SECTION before|after URL`.

Prints the answers, the computations, and how many of a crowd computed, as a Python literal.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import types
from typing import Any

from tests.migrating.pairs import pairs
from tests.migrating.plays import CALLERS, PLAYS

PATIENCE = 60.0
_WRITTEN_URL = "redis://localhost:6379/0"


def main(section: str, when: str, url: str) -> None:
    pair, play = pairs()[section], PLAYS[section]
    page = types.ModuleType("page")
    sys.modules["page"] = page
    code = f"{pair.shared}\n\n{getattr(pair, when)}".replace(_WRITTEN_URL, url)
    meeting = Meeting(play.crowd_before if when == "before" else 1)
    if "time bucket" in section:
        time.time = lambda: 1_000_000.0  # no bucket ends during the calls

    def run() -> None:
        exec(compile(code, section, "exec", dont_inherit=True), page.__dict__)

    if asyncio.iscoroutinefunction(play.play):
        answers = asyncio.run(_played(run, play.play, play.crowd, page, meeting))
    else:
        run()
        answers = play.play(page)
        page.plain_query = meeting.plain_query
        _agree(play.crowd(page))
    print(repr((answers, page.computed, meeting.computations)))


async def _played(run: Any, play: Any, crowd: Any, page: types.ModuleType, meeting: Meeting) -> Any:
    async with asyncio.timeout(PATIENCE):
        run()
        answers = await play(page)
        page.query = meeting.query
        _agree(await crowd(page))
    return answers


def _agree(answers: list[Any]) -> None:
    if answers != [990] * CALLERS:
        raise AssertionError(f"the crowd got {answers}")


class Meeting:
    """A query that goes on when so many run beside each other: they are there, or the program fails."""

    def __init__(self, parties: int) -> None:
        self.computations = 0
        self._threads = threading.Barrier(parties, timeout=PATIENCE)
        self._tasks = asyncio.Barrier(parties)

    def plain_query(self, id: int) -> int:
        self.computations += 1
        self._threads.wait()
        return id * 10

    async def query(self, id: int) -> int:
        self.computations += 1
        await self._tasks.wait()
        return id * 10


if __name__ == "__main__":
    main(*sys.argv[1:])
