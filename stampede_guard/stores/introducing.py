"""The name that a connection has in `CLIENT LIST`.

A server may not know the command, or not let this user: then the connection has no name, and all else works.
"""

from __future__ import annotations

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ResponseError

__all__ = ["client_name", "connect_as"]

_OURS = "stampede_guard"


def client_name(namespace: str) -> str:
    """Of the connections of one namespace; without one, those of leases and of the command line."""
    return f"{_OURS}:{namespace}" if namespace else _OURS


async def connect_as(name: str, connection: AbstractConnection) -> None:
    """Connect, and give the connection this name unless the user's settings give it another."""
    await connection.connect()  # type: ignore[no-untyped-call]
    if getattr(connection, "client_name", None):
        # redis-py has sent it. A name that was asked for and is refused fails the connection.
        return
    try:
        await connection.send_command("CLIENT", "SETNAME", name, check_health=False)
        await connection.read_response()
    except ResponseError:
        pass
