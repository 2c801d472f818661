"""Eight real worker processes of gunicorn: one computation per expiry, with threads and with greenlets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
import redis

from bench.herd import processes
from bench.herd.valkey import free_port
from tests.chaos.journal import Journal
from tests.support import gunicorn

BURST = 24
WAITING = 7
"""Fewer than the threads of one worker, which may get all of them."""
WHAT = ("helper", "page")
KINDS = {
    "sync": ["--worker-class", "sync", "--preload"],
    "gthread": ["--worker-class", "gthread", "--threads", "8", "--preload"],
    # As gunicorn advises: the settings replace the modules before the application is imported.
    "gevent": [
        "--worker-class",
        "gevent",
        "--preload",
        "--config",
        "python:tests.integrations.flask.greenlets",
    ],
}


@pytest.mark.parametrize("kind", KINDS)
def test_eight_workers_compute_once_per_expiry(
    kind: str, valkey_url: str, namespace: str, tmp_path: Path
) -> None:
    fleet = Fleet(valkey_url, namespace, tmp_path)
    child = gunicorn.start(
        *KINDS[kind],
        "tests.integrations.flask.shop:create_app()",
        port=fleet.port,
        place=tmp_path,
        SHOP_URL=valkey_url,
        SHOP_NAMESPACE=namespace,
        SHOP_JOURNAL=str(fleet.journal.path),
        SHOP_GATE=str(fleet.gate),
    )
    try:
        asyncio.run(fleet.play(child, waits_beside_work=kind != "sync"))
        child.stop()
        words = child.last_words(lines=1000)
        assert not any(sign in words for sign in ("Traceback", "[ERROR]", "WARNING", "Warning")), words
    finally:
        child.kill()


class Fleet:
    def __init__(self, store: str, namespace: str, place: Path) -> None:
        self.port = free_port()
        self.journal = Journal(place / "journal")
        self.gate = place / "gate"
        self._store = store
        self._namespace = namespace

    async def play(self, child: processes.Child, *, waits_beside_work: bool) -> None:
        async with gunicorn.client_of(self.port) as client, asyncio.timeout(240.0):

            async def get(path: str) -> str:
                answer = await client.get(path)
                assert answer.status_code == 200, child.last_words()
                return answer.text

            await gunicorn.all_at_work(client, child)
            for expiry in range(1, 3):
                for what in WHAT:
                    assert set(await asyncio.gather(*(get(what) for _ in range(BURST)))) == {what}
                    assert len(self.journal.computations(what)) == expiry, what
                await asyncio.to_thread(self._expire)
            if waits_beside_work:
                async with gunicorn.clients_of_each(self.port, child) as each:
                    await self._wait_beside_work(client, each, child)
            assert {await get("left") for _ in range(gunicorn.WORKERS)} == {"0"}, "a session was left behind"

    async def _wait_beside_work(
        self, client: httpx.AsyncClient, each: Sequence[httpx.AsyncClient], child: processes.Child
    ) -> None:
        """All workers answer other requests while one of them computes and others wait."""
        waiting = [asyncio.ensure_future(client.get("held")) for _ in range(WAITING)]
        while not self.journal.computations("held"):  # noqa: ASYNC110 - another process writes the journal
            await asyncio.sleep(0.05)
        answers = await asyncio.gather(*(one.get("/who") for one in each))
        assert len({answer.text for answer in answers}) == gunicorn.WORKERS, child.last_words()
        assert not any(one.done() for one in waiting)
        self.gate.touch()
        assert {answer.text for answer in await asyncio.gather(*waiting)} == {"held"}, child.last_words()
        assert len(self.journal.computations("held")) == 1

    def _expire(self) -> None:
        """The lifetimes of all values end."""
        with redis.Redis.from_url(self._store) as client:
            for name in client.scan_iter(f"*{self._namespace}:*"):
                client.delete(name)
