"""The identity of this process, for people to read and for tracing a token to its process."""

from __future__ import annotations

import uuid

from stampede_guard.leases import checks
from stampede_guard.leases.messages import Owner
from stampede_guard.values.forks import in_children
from stampede_guard.values.processplace import this_place

__all__ = ["called", "this_process"]

_process = ""


def this_process(label: str = "") -> Owner:
    """The owner of this process: a UUID that changes after a fork; the pod from `POD_NAME`, else `HOSTNAME`."""
    global _process
    if not _process:
        _process = str(uuid.uuid4())
    here = this_place()
    # Python reads bytes of the environment that are no UTF-8 as halves of surrogate pairs.
    pod, host = checks.storable(here.pod), checks.storable(here.host)
    return Owner(process=_process, pod=pod, host=host, pid=here.pid, label=label)


def called(owner: Owner) -> str:
    """The display name of an owner: label, pod and process id."""
    place = owner.pod or owner.host or owner.process
    name = f"{place}/{owner.pid}" if owner.pid else place
    return f"{owner.label} ({name})" if owner.label else name


@in_children
def _after_fork() -> None:
    global _process
    _process = ""
