"""The machine, which the workers of one run share and some tests want for themselves.

`make test` runs several tests at once, because most wait more than they compute. One that would fail, or prove nothing,
beside another is marked `@pytest.mark.alone(reason="...")`: it waits for the tests of the other workers to end, and
theirs wait for it. The waiting is nobody's time: neither a test's duration nor its time-out counts it. Beside it are
only tests of workers that give way (`computing.py`).
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["Machine"]


class Machine:
    """Locks on two files, which all workers of a run open. A worker that dies leaves both."""

    def __init__(self, directory: Path) -> None:
        self._door: IO[bytes] = (directory / "door").open("ab")
        self._room: IO[bytes] = (directory / "room").open("ab")

    @contextmanager
    def taken(self, *, alone: bool) -> Iterator[None]:
        """With others, or with nobody else in the room."""
        # Who waits for the room holds the door, so that a stream of tests that share cannot keep him out for ever.
        with _locked(self._door, fcntl.LOCK_EX):
            fcntl.flock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(self._room, fcntl.LOCK_UN)


@contextmanager
def _locked(file: IO[bytes], how: int) -> Iterator[None]:
    fcntl.flock(file, how)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
