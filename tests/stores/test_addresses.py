"""URLs of stores on several servers, and what they say when they are wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import RedisCluster, Sentinel
from redis.asyncio.connection import SSLConnection
from redis.cluster import LoadBalancingStrategy

from stampede_guard import StampedeGuard
from stampede_guard.api.urls import store_for, store_from_url
from stampede_guard.errors import Misuse, UrlError
from stampede_guard.stores.cluster import ClusterStore
from stampede_guard.stores.sentinel import SentinelStore


def cluster(url: str) -> ClusterStore:
    store = store_from_url(url)
    assert isinstance(store, ClusterStore)
    return store


def sentinel(url: str) -> SentinelStore:
    store = store_from_url(url)
    assert isinstance(store, SentinelStore)
    return store


async def test_a_cluster_is_named_by_some_of_its_nodes() -> None:
    store = cluster("redis+cluster://us%40er:p%3Aw@h1:7000,h2,[::1]:7001/?client_name=me")
    assert store.seeds == (("h1", 7000), ("h2", 6379), ("::1", 7001))
    connection: Any = store.connect(("other", 1))
    assert (connection.host, connection.port, connection.client_name) == ("other", 1, "me")
    assert (connection.username, connection.password) == ("us@er", "p:w")
    assert not isinstance(connection, SSLConnection)


async def test_with_two_s_it_is_tls() -> None:
    connection: Any = cluster("rediss+cluster://h1?ssl_check_hostname=false").connect(("h1", 1))
    assert isinstance(connection, SSLConnection) and not connection.check_hostname
    assert isinstance(sentinel("rediss+sentinel://h1/m").connect(), SSLConnection)


async def test_sentinels_have_users_of_their_own() -> None:
    store = sentinel("redis+sentinel://u:p@h1,h2:5/mymaster/3?sentinel_username=s&sentinel_password=t")
    master: Any = store.connect()
    assert (master.username, master.password, master.db) == ("u", "p", 3)
    first, second = (make() for make in store._sentinels)
    found: Any = [(each.host, each.port, each.username, each.password) for each in (first, second)]  # type: ignore[attr-defined]
    assert found == [("h1", 26379, "s", "t"), ("h2", 5, "s", "t")]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis+cluster://", "'' in the store URL is not a host"),
        ("redis+cluster://h1,,h2", "'' in the store URL is not a host"),
        ("redis+cluster://h1:port", "'h1:port' in the store URL is not a host"),
        ("redis+cluster://h1:70000", "70000 in the store URL is not a port"),
        ("redis+cluster://h1/3", "only database 0: write nothing after the hosts of the store URL, not /3"),
        ("redis+cluster://h1?no_such_option=1", "option of the store URL is unknown: .*no_such_option"),
        ("redis+cluster://h1?socket_read_size=many", "cannot be read: .*socket_read_size"),
        ("redis+cluster://h1#part", "cannot be read: write scheme://"),
        ("redis+sentinel://h1", "names no service: write redis\\+sentinel://host:26379/mymaster"),
        ("redis+sentinel://h1:26379/mymaster/first", "must be a number, as in /mymaster/0, not 'first'"),
        ("redis+clusters://h1", "unknown scheme 'redis\\+clusters' .*redis\\+cluster://"),
    ],
)
def test_a_url_that_cannot_be_understood_says_what_is_wrong(url: str, words: str) -> None:
    with pytest.raises(UrlError, match=words):
        StampedeGuard.from_url(url)


async def test_the_password_is_not_in_the_error() -> None:
    with pytest.raises(UrlError) as caught:
        store_from_url("redis+cluster://user:secret@h1:port")
    assert "secret" not in str(caught.value)


async def test_clients_of_ones_own_are_stores() -> None:
    reading = LoadBalancingStrategy.ROUND_ROBIN_REPLICAS
    client = RedisCluster(host="h1", port=7000, username="u", password="p", load_balancing_strategy=reading)
    store = store_for(client)
    assert isinstance(store, ClusterStore) and store.seeds == (("h1", 7000),)
    connection: Any = store.connect(("h2", 1))
    assert (connection.host, connection.username, connection.redis_connect_func) == ("h2", "u", None)
    watched = Sentinel([("h1", 1)])
    assert isinstance(store_for(watched.master_for("m")), SentinelStore)
    with pytest.raises(Misuse, match=r"sentinel\.master_for"):
        store_for(watched.slave_for("m"))
    await asyncio.gather(watched.aclose(), client.aclose())
