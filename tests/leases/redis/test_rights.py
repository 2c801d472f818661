"""With the rights that the page on Redis gives for leases and jobs nothing is refused."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard.errors import StoreError
from stampede_guard.jobs.backends import runs_of
from stampede_guard.jobs.messages import Claim, Ending, JobPoll, Registration
from stampede_guard.leases.redis.backend import RedisBackend
from tests.stores.test_rights import knows_setinfo
from tests.support.gate import until
from tests.support.leases import LONG, ask, owner

PAGE = Path(__file__).resolve().parents[3] / "docs" / "redis.md"


def rights() -> list[str]:
    block = PAGE.read_text("utf-8").split("<!-- acl leases -->\n```\n")[1].split("```")[0]
    words = block.split()
    assert words[:3] == ["ACL", "SETUSER", "shop"]
    return [word for word in words[3:] if word != "+client|setinfo" or knows_setinfo()]


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as started:
        yield started


async def everything(server: ValkeyServer) -> list[str]:
    """Each script, as the user of the page; what was denied."""
    with server.client(decode_responses=True) as client:
        client.execute_command("ACL", "LOG", "RESET")
        client.script_flush()
    url = f"redis://shop:password@127.0.0.1:{server.port}"
    backend = RedisBackend.from_url(url, namespace="shop", restart="trust")
    try:
        backend.on_freed(lambda _: None)
        runs, slot = runs_of(backend), round(time.time() * 1000) - 60_000
        claim = Claim(job="shop:j", slot=slot, run="r", owner=owner("r"), fingerprint="f", alive_for=60.0)
        for asked in (
            backend.acquire(ask("shop:n", "a", lease_ttl=0.2), timeout=LONG),
            backend.acquire(ask("shop:n", "b", place=9), timeout=LONG),
            backend.acquire(ask("shop:n", "c", place=9), timeout=LONG),
            backend.leave("shop:n", holder="c", timeout=LONG),
            backend.renew("shop:n", holder="a", token=1, lease_ttl=9, timeout=LONG),
            backend.check("shop:n", holder="a", token=1, timeout=LONG),
            backend.force("shop:n", token=1, by="eve", now=True, timeout=LONG),
            backend.release("shop:n", holder="b", token=0, at_least_for=0, timeout=LONG),
            backend.views("shop:", limit=9, timeout=LONG),
            backend.audits("shop:", limit=9, timeout=LONG),
            runs.register(
                Registration(job="shop:j", schedule="s", fingerprint="f", rhythm=9.0), timeout=LONG
            ),
            runs.follow(Registration(job="shop:j", schedule="s", fingerprint="f", rhythm=9.0), timeout=LONG),
            runs.take_over(
                Registration(job="shop:j", schedule="s", fingerprint="f", rhythm=9.0), timeout=LONG
            ),
            runs.look(
                [
                    JobPoll(
                        registration=Registration(job="shop:j", schedule="s", fingerprint="f", rhythm=9.0),
                        attempts=2,
                    )
                ],
                again=9,
                timeout=LONG,
            ),
            runs.retriable("shop:j", attempts=3, limit=9, timeout=LONG),
            runs.claim(claim, timeout=LONG),
            runs.beat("shop:j", slot=slot, run="r", alive_for=9.0, token=1, timeout=LONG),
            runs.finish("shop:j", slot=slot, run="r", ending=Ending(outcome="completed"), timeout=LONG),
            runs.record("shop:j", slots=[slot - 1], outcome="missed", error="", timeout=LONG),
            runs.sweep("shop:j", timeout=LONG),
            runs.history("shop:j", limit=9, timeout=LONG),
            runs.history("shop:j", limit=9, outcomes=("failed",), timeout=LONG),
            runs.views("shop:", limit=9, timeout=LONG),
            runs.prune("shop:j", keep=0, older_than=0.0, timeout=LONG),
            runs.forget("shop:j", timeout=LONG),
        ):
            with contextlib.suppress(StoreError):
                await asked
        with contextlib.suppress(TimeoutError):
            subscribed = backend.scripts._session.hears_changes
            await until(lambda: subscribed(backend.scripts.tag) or denied(server))
    finally:
        await backend.aclose()
    return denied(server)


def denied(server: ValkeyServer) -> list[str]:
    with server.client(decode_responses=True) as client:
        return sorted({f"{entry['reason']} {entry['object']}" for entry in client.acl_log()})


async def test_with_the_rights_in_the_page_nothing_is_refused(server: ValkeyServer) -> None:
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "shop", "reset", *rights())
    assert await everything(server) == []


async def test_what_may_not_be_looked_at_is_not_granted(server: ValkeyServer) -> None:
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "shop", "reset", *rights(), "-info")
    backend = RedisBackend.from_url(f"redis://shop:password@127.0.0.1:{server.port}", namespace="shop")
    try:
        with pytest.raises(StoreError, match=r"INFO|info|permission|can't run this command"):
            await backend.acquire(ask("shop:other", "a"), timeout=LONG)
    finally:
        await backend.aclose()
