"""The name of an inbox: a fresh UUID, and whose it is, so that operators can count the processes of a namespace."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable

__all__ = ["INBOXES", "inbox_name", "processes_by_namespace"]

INBOXES = "stampede_guard:inbox:"
"""What the name of every inbox begins with."""

_process = uuid.uuid4().hex


def inbox_name(namespace: str) -> str:
    """A new one of this process. Without a namespace it is nobody's: an operator's, or one for leases."""
    fresh = f"{INBOXES}{uuid.uuid4().hex}"
    return f"{fresh}:{_process}:{namespace}" if namespace else fresh


def processes_by_namespace(inboxes: Iterable[str]) -> dict[str, int]:
    """How many processes each namespace has among these inboxes. A process has one inbox per event loop and guard."""
    found: dict[str, set[str]] = {}
    for inbox in inboxes:
        # A namespace may have colons of its own.
        fresh, process, namespace = [*inbox.removeprefix(INBOXES).split(":", 2), "", ""][:3]
        if fresh and process and namespace:
            found.setdefault(namespace, set()).add(process)
    return {namespace: len(processes) for namespace, processes in found.items()}


def _after_fork() -> None:
    global _process
    _process = uuid.uuid4().hex


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
