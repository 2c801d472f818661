"""The name of an inbox: a fresh UUID, the process and its namespace. Operators count a namespace's processes by it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from stampede_guard.values.forks import in_children

__all__ = ["INBOXES", "inbox_name", "processes_by_namespace"]

INBOXES = "stampede_guard:inbox:"
"""Every inbox name begins with this."""

_process = uuid.uuid4().hex


def inbox_name(namespace: str) -> str:
    """A new inbox name of this process. Inboxes without a namespace belong to operators or leases."""
    fresh = f"{INBOXES}{uuid.uuid4().hex}"
    return f"{fresh}:{_process}:{namespace}" if namespace else fresh


def processes_by_namespace(inboxes: Iterable[str]) -> dict[str, int]:
    """How many processes each namespace has among these inboxes. A process has one inbox per event loop and guard."""
    found: dict[str, set[str]] = {}
    for inbox in inboxes:
        # A namespace may contain colons itself.
        fresh, process, namespace = [*inbox.removeprefix(INBOXES).split(":", 2), "", ""][:3]
        if fresh and process and namespace:
            found.setdefault(namespace, set()).add(process)
    return {namespace: len(processes) for namespace, processes in found.items()}


@in_children
def _after_fork() -> None:
    global _process
    _process = uuid.uuid4().hex
