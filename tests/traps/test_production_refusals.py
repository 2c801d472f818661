"""Passwords that are rotated, and rights that come and go: what health, events and the log say of it."""

from __future__ import annotations

import asyncio

import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from stampede_guard.events import Event, Recovered, Refused

TRIES = 600
USER = ("reset", "on", "~*", "&*", "+@all", ">right")


async def _seven() -> int:
    return 7


def tell(server: ValkeyServer, *rules: str, cut: bool = False) -> None:
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "shop", *rules)
        if cut:
            for kind in ("normal", "pubsub"):
                client.client_kill_filter(_type=kind, skipme=True)


async def becomes(guard: StampedeGuard, status: str) -> None:
    """Hits only, of one key: nothing is computed, so no lease is asked for."""
    for _ in range(TRIES):
        assert await guard.get_or_compute("k:1", _seven) == 7
        if guard.health().status == status:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(guard.health())


@pytest.mark.parametrize("rights", ["password", "right"])
async def test_a_refusal_at_the_door_ends_with_the_first_answer(
    rights: str, own_valkey: ValkeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    """1. Connections are lost while the password is another. 2. A read fails, and the flight's acquire is refused.
    3. The password is right again. 4. All calls are hits: nobody acquires anything, whose answer would end it."""
    tell(own_valkey, *USER)
    events: list[Event] = []
    name = "?client_name=mine" if rights == "right" else ""
    url = own_valkey.url.replace("//", "//shop:right@") + name
    async with StampedeGuard.from_url(url, namespace="shop", hooks=(events.append,)) as guard:
        await guard.get_or_compute("k:1", _seven)
        tell(own_valkey, *(("resetpass",) if rights == "password" else ("-client|setname",)), cut=True)
        await becomes(guard, "refused")
        tell(own_valkey, *USER)
        await becomes(guard, "ok")
        assert len([event for event in events if isinstance(event, Refused)]) == 1
        assert len([event for event in events if isinstance(event, Recovered)]) == 1
        lines = [record.getMessage() for record in caplog.records if "guard" in record.getMessage()]
        assert sum("refuses this guard" in line for line in lines) == 1
        assert sum("lets this guard in again" in line for line in lines) == 1


async def test_a_missing_right_to_write_is_not_over_because_reads_are_answered(
    own_valkey: ValkeyServer,
) -> None:
    tell(own_valkey, *USER, "-set")
    url = own_valkey.url.replace("//", "//shop:right@")
    async with StampedeGuard.from_url(url, namespace="shop") as guard:
        await guard.get_or_compute("k:1", _seven)
        for _ in range(3):
            assert (await guard.check_health()).status == "refused"
        tell(own_valkey, "+set")
        await becomes(guard, "ok")


async def test_a_port_of_tls_is_named_where_the_url_has_none(namespace: str) -> None:
    """A server of TLS answers a plain command with an alert, in bytes of its own protocol."""

    async def alert(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"\x15\x03\x03\x00\x02\x02\x46")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(alert, "127.0.0.1") as listening:
        port = listening.sockets[0].getsockname()[1]
        async with StampedeGuard.from_url(f"redis://127.0.0.1:{port}", namespace=namespace) as guard:
            health = await guard.check_health()
            assert health.status == "away" and "rediss://" in health.why
