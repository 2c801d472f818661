"""Receivers of Celery's signals."""

from __future__ import annotations

import functools
from contextvars import ContextVar
from typing import Any

from celery.signals import beat_init, before_task_publish, worker_process_shutdown

from stampede_guard.engine.threads.portal import end_portal
from stampede_guard.integrations.celery.stamps import HEADER, Stamp

__all__ = ["connect"]

_SENDING: ContextVar[Stamp | None] = ContextVar("stampede_guard_celery_tick", default=None)


def _stamp_ticks(sender: Any, **_: Any) -> None:
    """Beat starts. Every scheduler class sends a tick through this method, and gives the entry to it."""
    scheduler = sender.scheduler
    send = scheduler.apply_async

    @functools.wraps(send)
    def apply_async(entry: Any, *args: Any, **kwargs: Any) -> Any:
        before = _SENDING.set(Stamp.of_entry(scheduler.app, entry))
        try:
            return send(entry, *args, **kwargs)
        finally:
            _SENDING.reset(before)

    scheduler.apply_async = apply_async


def _put_stamp(headers: Any = None, **_: Any) -> None:
    stamp = _SENDING.get()
    if stamp is not None and headers is not None:
        headers[HEADER] = stamp.header()


def _finish_what_runs_in_the_background(**_: Any) -> None:
    """A child of the prefork pool ends with `os._exit`."""
    end_portal()


def connect() -> None:
    """Connect them. A second call changes nothing."""
    beat_init.connect(_stamp_ticks, weak=False, dispatch_uid=f"{__name__}.beat")
    before_task_publish.connect(_put_stamp, weak=False, dispatch_uid=f"{__name__}.publish")
    worker_process_shutdown.connect(
        _finish_what_runs_in_the_background, weak=False, dispatch_uid=f"{__name__}.shutdown"
    )
