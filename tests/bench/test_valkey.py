"""The server that other tests rely on does what its names say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from bench.herd.valkey import ValkeyServer


@pytest.fixture
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


def test_it_restarts_on_the_same_port_with_its_data(server: ValkeyServer) -> None:
    port, pid = server.port, server.pid
    server.client().set("key", "value")
    server.restart(keep_data=True)
    assert (server.port, server.pid == pid) == (port, False)
    assert server.client().get("key") == b"value"


def test_it_restarts_without_its_data(server: ValkeyServer) -> None:
    server.client().set("key", "value")
    server.restart(keep_data=False)
    assert server.client().get("key") is None


def test_a_kill_loses_the_data_and_says_so(server: ValkeyServer) -> None:
    server.kill()
    with pytest.raises(RuntimeError, match="persistent=True"):
        server.restart(keep_data=True)
    server.restart(keep_data=False)
    assert server.client().ping()


def test_a_persistent_server_keeps_every_acknowledged_write_across_a_kill() -> None:
    with ValkeyServer(persistent=True) as server:
        server.client().set("key", "value")
        server.kill()
        server.restart(keep_data=True)
        assert server.client().get("key") == b"value"
        server.restart(keep_data=False)
        assert server.client().get("key") is None


def test_a_paused_server_accepts_and_does_not_answer_until_it_is_resumed(server: ValkeyServer) -> None:
    server.pause()
    with pytest.raises(redis.TimeoutError):
        server.client(socket_timeout=0.2).ping()
    server.resume()
    assert server.client().ping()


def test_two_servers_live_side_by_side(server: ValkeyServer) -> None:
    with ValkeyServer() as other:
        assert other.port != server.port


def test_options_are_the_servers_directives() -> None:
    with ValkeyServer(options={"requirepass": "secret", "maxmemory": "3mb"}) as server:
        assert server.client().config_get("maxmemory") == {"maxmemory": "3145728"}
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=server.port, retry=Retry(NoBackoff(), 0)).ping()


def test_an_option_that_the_server_refuses_is_told_in_its_own_words() -> None:
    with (
        pytest.raises(RuntimeError, match="no-such-directive"),
        ValkeyServer(options={"no-such-directive": "1"}),
    ):
        pass


def test_starting_twice_is_an_error(server: ValkeyServer) -> None:
    with pytest.raises(RuntimeError, match="runs already"):
        server.start()
