"""What the outboxes of SQLAlchemy and Django share: when a relay looks, and which rows it leaves alone.

**When.** A commit with a row sends a NOTIFY. 1. The process that committed invalidates the tags and deletes its row,
usually within milliseconds. 2. The relays hear the NOTIFY, and look `after` seconds later. They find a row only if that
process has died, or Redis was away. A NOTIFY can be lost, and PgBouncer may not pass it on. So relays also look from
time to time: every `every` seconds if they cannot listen, and `IDLE` times as rarely if they can.

**Which.** A row whose tags cannot be invalidated (its cache is gone, its tag is none) must not stop those behind it.
The relay logs it once, and leaves it alone for `STUCK_SECONDS`.
"""

from __future__ import annotations

import contextlib
import logging
import random
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

__all__ = ["AT_ONCE", "CHANNEL", "IDLE", "TOGETHER", "Bell", "NextLook", "Stuck", "notified", "run"]

log = logging.getLogger("stampede_guard")

CHANNEL = "stampede_guard_outbox"
"""Of the NOTIFY. The text is the namespace, which no relay needs."""
AT_ONCE = 100
IDLE = 10
STUCK_SECONDS = 60.0
_MOST_STUCK = 1000
TOGETHER = 0.05
"""Rows that this process has delivered within this time are deleted by one statement."""


class Stuck:
    """Rows whose delivery failed a moment ago, at most 1,000 of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: dict[Any, float] = {}
        self._told: dict[Any, None] = {}

    def add(self, row: Any, error: Exception) -> None:
        if row not in self._told:
            log.error("the outbox has a row that cannot be delivered (id %s); it stays", row, exc_info=error)
        self._told[row], self._since[row] = None, self._clock()
        if len(self._told) > _MOST_STUCK:
            self._told.pop(next(iter(self._told)))
        if len(self._since) > _MOST_STUCK:
            self._since.pop(next(iter(self._since)))

    def rows(self) -> list[Any]:
        now = self._clock()
        self._since = {row: since for row, since in self._since.items() if now - since < STUCK_SECONDS}
        return list(self._since)


class NextLook:
    """When a relay looks next. Times are those of `time.monotonic`."""

    def __init__(self, every: float, after: float) -> None:
        self.every, self.after = every, after
        self.due = 0.0

    def looked(self, now: float, listening: bool) -> None:
        pause = self.every * random.uniform(0.5, 1.5)
        self.due = now + max(pause * IDLE, self.after) if listening else now + pause

    def heard(self, now: float) -> None:
        """A transaction has committed a row. Many of them within `after` seconds are looked at together."""
        self.due = min(self.due, now + self.after + 0.01)


class Bell:
    """Wakes the thread of a relay: `ring()` in this process, or a NOTIFY.

    `connect()` opens a connection of psycopg or psycopg2 that listens, outside of any pool. None: the database or its
    driver cannot. It may raise any error of the database.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._connection: Any = None
        self._near, self._far = socket.socketpair()
        for end in (self._near, self._far):
            end.setblocking(False)
        self._lost = False

    @property
    def is_listening(self) -> bool:
        return self._connection is not None

    def listen(self) -> None:
        """Called before each look, so that what is committed later is heard."""
        if self._connection is not None:
            return
        try:
            self._connection = self._connect()
            self._lost = False
        except Exception as error:
            if not self._lost:
                log.warning("the relay of the outbox cannot listen, so it looks more often: %s", error)
            self._lost = True

    def ring(self) -> None:
        with contextlib.suppress(OSError):  # it rings already, or the relay has ended
            self._far.send(b"!")

    def wait(self, seconds: float) -> bool:
        """Until it rings, a NOTIFY comes, or the time is over. Whether one came."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._near, selectors.EVENT_READ)
            if self._connection is not None:
                selector.register(self._connection, selectors.EVENT_READ)
            readable = {key.fileobj for key, _ in selector.select(max(0.0, seconds))}
        if self._near in readable:
            self._near.recv(4096)
        return self._connection in readable and self._notified()

    def _notified(self) -> bool:
        try:
            return notified(self._connection)
        except Exception as error:
            log.warning("the relay of the outbox has lost its connection that listens: %s", error)
            self._hang_up()
            return True

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except Exception:
                log.debug("a lost connection could not be closed", exc_info=True)

    def close(self) -> None:
        self._hang_up()
        self._near.close()
        self._far.close()


def run(
    look: Callable[[], int],
    clean: Callable[[], object],
    bell: Bell,
    schedule: NextLook,
    stopped: threading.Event,
) -> None:
    """Look, and wait, until it is stopped. Errors of the database are logged once, and it goes on.

    `look()` delivers the rows that are due, at most `AT_ONCE`, and returns how many. `clean()` deletes the rows that
    this process has delivered itself.
    """
    failing = False
    while not stopped.is_set():
        try:
            bell.listen()
            while look() == AT_ONCE and not stopped.is_set():
                pass
            failing = False
        except Exception:
            if not failing:
                log.exception("the outbox of invalidations cannot be read; the relay tries again")
            failing = True
        schedule.looked(time.monotonic(), listening=bell.is_listening and not failing)
        while not stopped.is_set() and (left := schedule.due - time.monotonic()) > 0:
            if bell.wait(left):
                schedule.heard(time.monotonic())
            # It may have rung as well.
            if not stopped.wait(TOGETHER):
                try:
                    clean()
                except Exception:
                    schedule.due = min(schedule.due, time.monotonic() + schedule.every)


def notified(connection: Any) -> bool:
    """Take what the connection of a driver has received, without waiting. Whether there was a NOTIFY."""
    if hasattr(connection, "poll"):  # psycopg2
        connection.poll()
        found = bool(connection.notifies)
        connection.notifies.clear()
        return found
    connection.pgconn.consume_input()
    found = False
    while connection.pgconn.notifies() is not None:
        found = True
    return found
