"""The name of an inbox: a fresh UUID, the process and its namespace.

Operators count a namespace's processes by it, and see which process holds a lease. So it has the process id, the host
and the pod.

Its first letter is a `t`: this process understands messages with a trace. Scripts send none to the other inboxes, which
begin with a hexadecimal digit. So two versions of the library can run together.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from urllib.parse import quote, unquote

from stampede_guard.values.forks import in_children
from stampede_guard.values.processplace import ProcessPlace, this_place

__all__ = ["INBOXES", "inbox_name", "place_in", "processes_by_namespace"]

INBOXES = "stampede_guard:inbox:"
"""Every inbox name begins with this."""
LONGEST_PART = 64

_known: dict[str, str] = {}
"""The name of this process. A dictionary, because two threads may make it at once, and must agree."""


def inbox_name(namespace: str) -> str:
    """A new inbox name of this process. Inboxes without a namespace belong to operators or leases."""
    fresh = f"{INBOXES}t{uuid.uuid4().hex[1:]}"
    return f"{fresh}:{_this_process()}:{namespace}" if namespace else fresh


def _this_process() -> str:
    known = _known.get("process")
    if known is None:
        here = this_place()
        parts = (uuid.uuid4().hex, str(here.pid), here.host, here.pod)
        known = _known.setdefault("process", "~".join(map(_quoted, parts)))
    return known


def _quoted(part: str) -> str:
    return quote(part[:LONGEST_PART], safe="", errors="replace").replace("~", "%7E")


def place_in(inbox: str) -> ProcessPlace | None:
    """Where the process of this inbox runs. None for an inbox of another version, or of leases."""
    _, _, rest = inbox.removeprefix(INBOXES).partition(":")
    parts = [unquote(part) for part in rest.partition(":")[0].split("~")]
    if len(parts) != 4 or not parts[1].isdecimal():
        return None
    return ProcessPlace(parts[2], int(parts[1]), parts[3])


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
    _known.clear()
