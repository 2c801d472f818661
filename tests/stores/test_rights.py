"""The user in docs/redis.md has every right that is needed, and none that is not."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio

from bench.herd.cluster import ValkeyCluster
from bench.herd.valkey import ValkeyServer
from stampede_guard.api.urls import store_from_url
from stampede_guard.core.scripts import Granted, Held
from stampede_guard.errors import StoreError, StoreRefused
from stampede_guard.policy import Policy
from stampede_guard.stores.cluster import ClusterStore
from stampede_guard.stores.connections.wire import entry_keys
from stampede_guard.stores.fleet.series import MINUTES
from stampede_guard.stores.protocol import Session
from tests.support.gate import until
from tests.support.listener import RecordingListener

PAGE = Path(__file__).resolve().parents[2] / "docs" / "redis.md"
POLICY = Policy(ttl=60, lease_ttl=20)
NAME = "shop:=entry"


def rights() -> list[str]:
    """What follows the user's name in the page; on an old server without what the page says to leave out there."""
    block = PAGE.read_text("utf-8").split("<!-- acl -->\n```\n")[1].split("```")[0]
    words = block.split()
    assert words[:3] == ["ACL", "SETUSER", "shop"]
    return [word for word in words[3:] if word != "+client|setinfo" or knows_setinfo()]


@functools.cache
def knows_setinfo() -> bool:
    """Redis 7.2, and every Valkey."""
    with ValkeyServer() as server, server.client() as client:
        version: str = client.info("server")["redis_version"]
    return tuple(int(part) for part in version.split(".")[:2]) >= (7, 2)


def operators_rights() -> list[str]:
    """What the page gives an operator in addition."""
    return PAGE.read_text("utf-8").split("<!-- acl operator -->\n```\n")[1].split("```")[0].split()


def told(server: ValkeyServer, *command: str) -> Any:
    with server.client(socket_timeout=5.0) as client:
        return client.execute_command(*command)


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as started:
        yield started


@pytest.fixture
def url(server: ValkeyServer) -> str:
    """Of the user in the page, who has just the rights that stand there; nothing is stored or known."""
    told(server, "ACL", "SETUSER", "shop", "reset", *rights())
    told(server, "FLUSHALL")
    told(server, "SCRIPT", "FLUSH")
    told(server, "ACL", "LOG", "RESET")
    return f"redis://shop:password@127.0.0.1:{server.port}"


async def everything(url: str) -> None:
    """Each script on each of its ways. What is refused is refused, and the next is tried."""
    store: Any = store_from_url(url)
    heard = RecordingListener()
    one, other = store.open_session(RecordingListener()), store.open_session(heard)
    try:
        await _everything(one, other, store)
    finally:
        await one.aclose()
        await other.aclose()


async def _everything(one: Session, other: Session, store: Any) -> None:
    grant = Granted(1, "none")
    with contextlib.suppress(StoreError):
        await one.switches("shop")
    with contextlib.suppress(StoreError):
        await one.count("shop", MINUTES, int(time.time() // 60), {"hits:shop.quality": 1})
    with contextlib.suppress(StoreError):
        await one.tell("shop", [(5, '{"kind": "taken over"}')])
        await one.tell("shop", [(5, '{"kind": "asked"}')], stream="herds")
    for outcome in ("value", "failure"):
        with contextlib.suppress(StoreError):
            answer = await one.acquire(NAME, flight="holder", policy=POLICY)
            grant = answer if isinstance(answer, Granted) else grant
        for asking in (
            other.acquire(NAME, flight="waiter", policy=POLICY),
            one.renew(NAME, flight="holder", token=grant.token, policy=POLICY),
            other.fallback(NAME, flight="beside", policy=POLICY),
            other.fallback(NAME, flight="beside", policy=POLICY),
            one.ensure_tag("shop:#project:7", policy=POLICY),
            other.ensure_tag("shop:#project:7", policy=POLICY),
            one.drop_tag("shop:#project:7"),
            one.publish(NAME, flight="holder", grant=grant, outcome=outcome, body=b"b", policy=POLICY),  # type: ignore[arg-type]
            one.acquire(NAME, flight="late", policy=POLICY),
        ):
            with contextlib.suppress(StoreError):
                await asking
        with contextlib.suppress(StoreError):
            await other.read(NAME)
        for asking in (one.invalidate(NAME, policy=POLICY), one.release(NAME, flight="late")):
            with contextlib.suppress(StoreError):
                await asking


def denied(server: ValkeyServer) -> list[str]:
    with server.client(decode_responses=True) as client:
        return sorted({f"{entry['reason']} {entry['object']}" for entry in client.acl_log()})


async def test_with_the_rights_in_the_page_nothing_is_refused(server: ValkeyServer, url: str) -> None:
    await everything(url)
    session = store_from_url(url).open_session(RecordingListener())
    await until(lambda: session.hears_changes(NAME))
    await session.aclose()
    assert denied(server) == []


async def test_none_of_the_commands_in_the_page_can_be_left_out(server: ValkeyServer, url: str) -> None:
    # Sent after seconds of silence only.
    commands = [word[1:] for word in rights() if word.startswith("+") and word != "+ping"]
    unmissed = []
    for command in commands:
        told(server, "ACL", "SETUSER", "shop", "reset", *rights())
        told(server, "ACL", "SETUSER", "shop", f"-{command}")
        told(server, "FLUSHALL")
        told(server, "SCRIPT", "FLUSH")
        told(server, "ACL", "LOG", "RESET")
        await everything(url)
        if f"command {command}" not in denied(server):
            unmissed.append(command)
    assert unmissed == []


@pytest.mark.parametrize(("right", "reason"), [("resetkeys", "key"), ("resetchannels", "channel")])
async def test_keys_and_channels_are_needed_too(
    server: ValkeyServer, url: str, right: str, reason: str
) -> None:
    told(server, "ACL", "SETUSER", "shop", right)
    await everything(url)
    assert any(entry.startswith(reason) for entry in denied(server))


async def test_another_namespace_is_out_of_reach(url: str) -> None:
    session = store_from_url(url).open_session(RecordingListener())
    with pytest.raises(StoreRefused, match="NoPermission"):
        await session.acquire("other:=entry", flight="f", policy=POLICY)
    await session.aclose()


async def test_where_numsub_is_denied_a_lease_is_held_to_its_deadline(server: ValkeyServer, url: str) -> None:
    told(server, "ACL", "SETUSER", "shop", "-pubsub|numsub")
    heard = RecordingListener()
    one = store_from_url(url).open_session(RecordingListener())
    other = store_from_url(url).open_session(heard)
    granted = await one.acquire(NAME, flight="holder", policy=POLICY)
    assert isinstance(granted, Granted)
    assert await other.acquire(NAME, flight="waiter", policy=POLICY) == Held(granted.token - 1, False)
    assert await one.publish(NAME, flight="holder", grant=granted, outcome="value", body=b"b", policy=POLICY)
    assert (await heard.message(NAME)).token == granted.token, "wake-ups do not need it"
    await one.invalidate(NAME, policy=POLICY)
    assert isinstance(await one.acquire(NAME, flight="dies", policy=POLICY), Granted)
    await one.aclose()
    for _ in range(3):
        answer = await other.acquire(NAME, flight="waiter", policy=POLICY)
        assert isinstance(answer, Held) and not answer.suspect
    async with redis.asyncio.Redis(port=server.port) as client:
        await client.delete(entry_keys(NAME)[3])
    assert isinstance(await other.acquire(NAME, flight="waiter", policy=POLICY), Granted)
    await other.aclose()


async def test_a_cluster_needs_what_the_page_says_in_addition(
    valkey_cluster: ValkeyCluster,
) -> None:
    for server in valkey_cluster.servers:
        told(server, "ACL", "SETUSER", "shop", "reset", *rights(), "+cluster|slots", "+asking")
        told(server, "ACL", "LOG", "RESET")
    url = valkey_cluster.url.replace("://", "://shop:password@")
    await everything(url)
    assert [denied(server) for server in valkey_cluster.servers] == [[], [], []]
    for server in valkey_cluster.servers:
        told(server, "ACL", "SETUSER", "shop", "-cluster|slots")
    store = store_from_url(url)
    assert isinstance(store, ClusterStore)
    session = store.open_session(RecordingListener())
    with pytest.raises(StoreRefused, match="cluster"):
        await asyncio.wait_for(session.read(NAME), 60)
    await session.aclose()
