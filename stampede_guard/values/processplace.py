"""Where a process runs, for people to read: host, process id, pod."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

__all__ = ["ProcessPlace", "this_place"]


@dataclass(frozen=True, slots=True)
class ProcessPlace:
    """Where a process runs, for people."""

    host: str
    pid: int
    pod: str

    def __str__(self) -> str:
        """`pod/host/pid`, or `host/pid` if the pod is named like its host."""
        return "/".join((*dict.fromkeys((self.pod, self.host)), str(self.pid)))


def this_place() -> ProcessPlace:
    """The pod is `$POD_NAME`, else `$HOSTNAME`, else the host."""
    host = socket.gethostname()
    return ProcessPlace(host, os.getpid(), os.environ.get("POD_NAME") or os.environ.get("HOSTNAME") or host)
