"""`manage.py stampede_guard_outbox` delivers the outbox until it is stopped."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand
from django.db import connections

from stampede_guard.integrations.django.invalidation import invalidated
from stampede_guard.integrations.django.outbox.rows import Relay
from stampede_guard.integrations.outboxes import AT_ONCE, CHANNEL, Bell, NextLook, run

__all__ = ["Command"]


class DeliverOutbox(BaseCommand):
    help = "Invalidate what processes that died, or found Redis away, left in the outbox."

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("--database", default="default", help="the database of settings.DATABASES")
        parser.add_argument(
            "--after", type=float, default=1.0, help="how old a row is when it is taken, in seconds"
        )
        parser.add_argument(
            "--every", type=float, default=1.0, help="how often to look without LISTEN, in seconds"
        )
        parser.add_argument("--once", action="store_true", help="deliver what is due, and end")

    def handle(self, *_: Any, database: str, after: float, every: float, once: bool, **__: Any) -> None:
        relay = Relay(database, after, invalidated)
        if once:
            delivered = 0
            while (some := relay.look()) > 0:
                delivered += some
                if some < AT_ONCE:
                    break
            self.stdout.write(f"{delivered} rows delivered")
            return
        bell, stopped = Bell(lambda: _listening(database)), threading.Event()

        def stop(*_: Any) -> None:
            stopped.set()
            bell.ring()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        try:
            run(relay.look, lambda: None, bell, NextLook(every, after), stopped)
        finally:
            bell.close()


Command = DeliverOutbox
"""The name that Django looks for."""


def _listening(database: str) -> Any:
    """A connection of the driver beside that of this thread. None: this is no PostgreSQL."""
    ours = connections[database]
    if ours.vendor != "postgresql":
        return None
    listening = ours.copy()
    listening.connect()
    listening.set_autocommit(True)
    with listening.cursor() as cursor:
        cursor.execute(f"LISTEN {CHANNEL}")
    return listening.connection
