"""An outbox of invalidations on PostgreSQL, with real processes that die."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from tests.support.sessions import patient

ROOT = Path(__file__).resolve().parents[3]


class Site:
    """It has a database of its own, which is a copy of `template`."""

    def __init__(self, server: str, store: str, namespace: str, template: str = "template1") -> None:
        self.name = "outbox_" + "".join(sign if sign.isalnum() else "_" for sign in namespace.lower())[-40:]
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {self.name} TEMPLATE {template}")
        self.database = server.rsplit("/", 1)[0] + f"/{self.name}"
        self.environment = {
            **os.environ, "SHOP_DATABASE": self.database, "SHOP_URL": store, "SHOP_NAMESPACE": namespace,
        }  # fmt: skip
        self._connection: psycopg.Connection[Any] | None = None

    def command(self, *role: object) -> list[str]:
        return [sys.executable, "-m", "tests.integrations.django.shop.outboxed", *map(str, role)]

    def run(self, *role: object) -> list[str]:
        done = subprocess.run(
            self.command(*role),
            check=False,
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    @contextmanager
    def running(self, *role: object) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            self.command(*role), env=self.environment, cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def count(self, query: str = "SELECT count(*) FROM stampede_guard_django_outbox") -> int:
        if self._connection is None:
            self._connection = psycopg.connect(self.database, autocommit=True)
        return int(self._connection.execute(query).fetchone()[0])  # type: ignore[index]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


@pytest.fixture(scope="module")
def migrated(postgres_url: str, valkey_url: str) -> str:
    """The name of a database in which a site's tables are."""
    site = Site(postgres_url, valkey_url, uuid.uuid4().hex)
    site.run("migrate")
    return site.name


@pytest.fixture
def shop(postgres_url: str, valkey_url: str, namespace: str, migrated: str) -> Iterator[Site]:
    with closing(Site(postgres_url, valkey_url, namespace, migrated)) as site:
        yield site


@pytest.fixture
def computed(valkey_url: str, namespace: str) -> Iterator[Callable[[], int]]:
    """How often a value of shelf 1 was computed until now."""
    guard, calls = StampedeGuard.from_url(patient(valkey_url), namespace=namespace), []

    @guard.locked_cache(ttl=600, tags=("shelf:1",))
    def value() -> int:
        calls.append(1)
        return len(calls)

    yield value
    guard.close()


def test_a_row_belongs_to_its_transaction_and_its_savepoint_and_is_deleted_after_the_invalidation(
    shop: Site, computed: Callable[[], int]
) -> None:
    assert computed() == 1
    assert shop.run("change") == ["(2, 2, True)", "0"]
    assert computed() == 2


def test_what_a_killed_process_leaves_behind_is_delivered_by_a_relay_that_heard_of_the_commit(
    shop: Site, computed: Callable[[], int]
) -> None:
    with shop.running("relay") as relay:
        eventually(lambda: shop.count("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN %'"))
        assert computed() == 1
        with shop.running("die_after_commit") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "committed\n"
            process.kill()
        eventually(lambda: shop.count() == 0)
        assert computed() == 2
        relay.terminate()
        assert relay.wait(60) == 0


def test_a_relay_that_is_killed_before_the_deletion_leaves_its_rows_to_another_one(
    shop: Site, computed: Callable[[], int]
) -> None:
    assert computed() == 1
    with shop.running("die_after_commit") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "committed\n"
    with shop.running("die_before_deletion") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "delivered\n"
        assert shop.run("once") == ["0 rows delivered"], "the other one has locked the row"
    assert computed() == 2
    eventually(lambda: shop.run("once") == ["1 rows delivered"])
    assert (computed(), shop.count()) == (3, 0)


def test_two_relays_share_many_rows_and_a_stuck_row_stops_none(shop: Site) -> None:
    shop.run("write", 250)
    with shop.running("once") as first, shop.running("once") as second:
        said = [process.communicate(timeout=120)[0].split()[0] for process in (first, second)]
    assert sum(map(int, said)) + shop.count() == 250
    shop.run("once")
    assert shop.count() == 0
    assert shop.run("stuck") == ["1 rows delivered", "1"]


def test_rows_stay_while_redis_is_away(
    postgres_url: str, own_valkey: ValkeyServer, namespace: str, migrated: str
) -> None:
    own_valkey.kill()
    with closing(Site(postgres_url, own_valkey.url, namespace, migrated)) as shop:
        shop.run("write", 3)
        assert shop.run("once") == ["0 rows delivered"]
        assert shop.count() == 3


def eventually(condition: Callable[[], object]) -> None:
    for _ in range(6_000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never was")
