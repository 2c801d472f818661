"""Whether something moves on a connection: a reply that still arrives, a request that is still being taken.

A large value on a thin line takes longer than any sensible deadline for an answer, and is no sign of an outage. So the
deadline of an answer begins anew as long as a part of one moves. Whole replies to others do not count: a server that
answers everybody too late is too slow. And `LONGEST` bounds it: a line that moves a byte now and then serves nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import sys
from typing import Any

__all__ = ["LARGE", "LONGEST", "Progress", "unsent"]

LONGEST = 20
"""Deadlines that one answer may take as long as something moves: 10 s where the deadline is the default 0.5 s."""
LARGE = 16 * 1024
"""Bytes written at once from which on it is watched whether the other side takes them."""
LOOKS = 5
"""How often per deadline that is looked at."""


class Progress:
    """Of one connection. `moved_at`: the loop's clock when a part of a message moved last; 0 = never."""

    def __init__(self, transport: Any, *, deadline: float) -> None:
        self.moved_at = 0.0
        self._transport = transport
        self._pause = deadline / LOOKS
        self._loop = asyncio.get_running_loop()
        self._look: asyncio.TimerHandle | None = None

    def part_received(self) -> None:
        """Bytes came that belong to a reply of which others came before or are yet to come."""
        self.moved_at = self._loop.time()

    def written(self) -> None:
        """Many bytes are on their way."""
        if self._look is None:
            self._plan(unsent(self._transport))

    def _plan(self, left: int) -> None:
        self._look = self._loop.call_later(self._pause, self._compare, left) if left else None

    def _compare(self, before: int) -> None:
        left = unsent(self._transport)
        if left < before:
            self.moved_at = self._loop.time()
        self._plan(left)

    def stop(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None


def unsent(transport: Any) -> int:
    """Bytes that the other side has not taken yet: here, and in the kernel where it tells (Linux)."""
    if transport.is_closing():
        return 0
    waiting = int(transport.get_write_buffer_size())
    raw = transport.get_extra_info("socket")
    if raw is not None and sys.platform == "linux":
        import fcntl
        import termios

        with contextlib.suppress(OSError, ValueError):
            # SIOCOUTQ, by its other name.
            waiting += struct.unpack("i", fcntl.ioctl(raw.fileno(), termios.TIOCOUTQ, b"\0" * 4))[0]
    return waiting
