"""The name that a connection has in `CLIENT LIST`.

A server may not know the command, or may not allow it for this user. Then the connection has no name and works.
"""

from __future__ import annotations

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ResponseError

__all__ = ["client_name", "connect_as"]

_OURS = "stampede_guard"


def client_name(namespace: str) -> str:
    """The name for connections of one namespace. Without a namespace: for leases and the command line."""
    return f"{_OURS}:{namespace}" if namespace else _OURS


async def connect_as(name: str, connection: AbstractConnection) -> None:
    """Connect, and give the connection this name unless the user's settings give it another."""
    await connection.connect()  # type: ignore[no-untyped-call]
    if getattr(connection, "client_name", None):
        # redis-py has sent it. If the server refuses a name that the user chose, the connection fails.
        return
    try:
        await connection.send_command("CLIENT", "SETNAME", name, check_health=False)
        await connection.read_response()
    except ResponseError:
        pass
