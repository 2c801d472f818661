"""Commands that a real server received for one entry."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator

from bench.herd.valkey import ValkeyServer

__all__ = ["commands_naming"]


@contextlib.contextmanager
def commands_naming(text: str, server: ValkeyServer) -> Iterator[list[str]]:
    """The list is filled at the end of the block, in the order of the server. What a script calls is left out.

    A test that counts all commands fails on a slow machine: a guard reads its modes and looks after its connections
    at moments of its own.
    """
    seen: list[str] = []
    end = uuid.uuid4().hex
    with server.client() as client, server.client() as watcher, watcher.monitor() as monitor:
        yield seen
        client.echo(end)
        while end not in (one := monitor.next_command())["command"]:
            if one["client_type"] != "lua" and text in one["command"]:
                seen.append(one["command"])
