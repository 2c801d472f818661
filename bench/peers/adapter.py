"""What the harness calls of each peer (open, call, close), and the facts about it for the reader."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

__all__ = ["About", "Adapter", "Compute", "TTL"]

TTL: Final = 300
"""Seconds that an entry is fresh: the incident's. No entry expires during a run; every herd meets a key of its own."""

Compute = Callable[[str], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """`distribution` is the name on the package index, empty for code of this repository. `page` documents the option
    that was chosen. `option` is that option, as code. `hits_by`: the adapter whose hits through Redis are timed
    instead, if the recommended option never reads a hit from Redis. `least_python`: the oldest that it runs on."""

    name: str
    distribution: str
    page: str
    option: str
    note: str = ""
    hits_by: str = ""
    least_python: tuple[int, int] = (3, 11)

    def missing(self) -> str:
        """Why this peer cannot run here, or nothing."""
        if not self.distribution:
            return ""
        if sys.version_info < self.least_python:
            return f"{self.distribution} needs Python {'.'.join(map(str, self.least_python))}"
        try:
            importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return f"{self.distribution} is not installed (make bench-peers installs it)"
        return ""

    @property
    def version(self) -> str:
        if not self.distribution or self.missing():
            return ""
        return importlib.metadata.version(self.distribution)


class Adapter(Protocol):
    """One cached function of one process. A module of an adapter imports its library in `open`, not at the top: the
    report names every peer, installed or not."""

    about: ClassVar[About]

    async def open(self, url: str, compute: Compute) -> None:
        """Connect to the server at `url` and put the cache before `compute`."""

    async def call(self, key: str) -> Any:
        """The value of `key`: a hit, or computed."""

    async def close(self) -> None:
        """Give connections and threads back."""
