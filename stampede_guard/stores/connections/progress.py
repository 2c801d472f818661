"""Whether data still moves on a connection: a reply that is arriving, or a request that the server is taking.

A large value on a slow line takes longer than any sensible deadline for an answer. This is not an outage. So the
deadline of an answer starts again while a part of an answer moves. Whole replies to other calls do not count, because a
server that answers every call too late is too slow. `LONGEST` is the limit: a line that moves one byte now and then is
useless.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import sys
from typing import Any

__all__ = ["LARGE", "LONGEST", "Progress", "unsent"]

LONGEST = 20
"""Deadlines that one answer may take while data moves. This is 10 s with the default deadline of 0.5 s."""
LARGE = 16 * 1024
"""From this number of bytes per write, the lane watches whether the server takes them."""
LOOKS = 5
"""The number of such checks per deadline."""


class Progress:
    """The progress of one connection. `moved_at`: loop time when a part of a message last moved; 0 = never."""

    def __init__(self, transport: Any, *, deadline: float) -> None:
        self.moved_at = 0.0
        self._transport = transport
        self._pause = deadline / LOOKS
        self._loop = asyncio.get_running_loop()
        self._look: asyncio.TimerHandle | None = None

    def part_received(self) -> None:
        """Called for bytes that are only a part of a reply."""
        self.moved_at = self._loop.time()

    def written(self) -> None:
        """Called when many bytes have been written."""
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
    """Bytes that the server has not taken yet: in this process, and in the kernel where it reports them (Linux)."""
    if transport.is_closing():
        return 0
    waiting = int(transport.get_write_buffer_size())
    raw = transport.get_extra_info("socket")
    if raw is not None and sys.platform == "linux":
        import fcntl
        import termios

        with contextlib.suppress(OSError, ValueError):
            # SIOCOUTQ under another name.
            waiting += struct.unpack("i", fcntl.ioctl(raw.fileno(), termios.TIOCOUTQ, b"\0" * 4))[0]
    return waiting
