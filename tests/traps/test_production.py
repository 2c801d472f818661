"""What a platform team meets: TLS, certificates, a store that refuses, and what says so."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import ssl
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis.asyncio
from starlette.applications import Starlette

import tests.support
from bench.herd.cluster import ValkeyCluster
from bench.herd.valkey import ValkeyServer, free_port
from stampede_guard import StampedeGuard
from stampede_guard.api.urls import store_from_url
from stampede_guard.errors import Misuse, StoreError, StoreMisconfigured, StoreUnavailable
from stampede_guard.events import BreakerOpened, Event, Recovered, Refused
from stampede_guard.integrations.starlette import health_endpoint
from stampede_guard.stores.cluster import ClusterStore
from stampede_guard.stores.protocol import Store
from stampede_guard.stores.redis import RedisStore
from tests.support.gate import until
from tests.support.listener import PATIENCE, RecordingListener
from tests.support.proxy import FaultProxy
from tests.support.scripted_server import ScriptedServer
from tests.support.sessions import LONG

CERTIFICATE = Path(tests.support.__file__).with_name("tls.pem")


@pytest.fixture
async def secure(server: ValkeyServer) -> AsyncIterator[FaultProxy]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    async with FaultProxy(server.port, tls=context) as listening:
        yield listening


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The thread of each SSLContext that is made for a client."""
    made: list[str] = []
    real = ssl.create_default_context

    def counted(*args: Any, **kwargs: Any) -> ssl.SSLContext:
        made.append(threading.current_thread().name)
        return real(*args, **kwargs)

    monkeypatch.setattr(ssl, "create_default_context", counted)
    return made


def secure_url(proxy: FaultProxy, more: str = "") -> str:
    return f"rediss://127.0.0.1:{proxy.port}?ssl_ca_certs={CERTIFICATE}{more}"


async def _seven() -> int:
    return 7


def stores(proxy: FaultProxy) -> dict[str, Store]:
    client = redis.asyncio.Redis.from_url(secure_url(proxy))
    cluster = redis.asyncio.RedisCluster(
        host="127.0.0.1", port=proxy.port, ssl=True, ssl_ca_certs=str(CERTIFICATE)
    )
    sentinel = f"rediss+sentinel://127.0.0.1:{proxy.port}/m?ssl_ca_certs={CERTIFICATE}"
    return {
        "a URL": store_from_url(secure_url(proxy)),
        "a client": RedisStore(client),
        "a cluster's URL": store_from_url(secure_url(proxy).replace("rediss", "rediss+cluster")),
        "a cluster's client": ClusterStore.from_client(cluster),
        "sentinels": store_from_url(sentinel),
    }


class TestOneSslContextPerStore:
    @pytest.mark.parametrize(
        "which", ["a URL", "a client", "a cluster's URL", "a cluster's client", "sentinels"]
    )
    async def test_it_is_made_once_and_not_on_the_event_loop_s_thread(
        self, which: str, secure: FaultProxy, contexts: list[str]
    ) -> None:
        store = stores(secure)[which]
        listeners = [RecordingListener(), RecordingListener()]
        sessions = [store.open_session(listener) for listener in listeners]
        async with asyncio.timeout(PATIENCE):
            while secure.accepted < 4:  # it is connected to again and again
                for session in sessions:
                    with contextlib.suppress(StoreError):
                        await session.read("shop:a")
                secure.cut()
                # A session that has just failed to connect answers without waiting.
                await asyncio.sleep(0.001)
        assert contexts == ["stampede_guard tls"]
        for session in sessions:
            await session.aclose()

    async def test_an_outage_makes_none(
        self, secure: FaultProxy, contexts: list[str], namespace: str
    ) -> None:
        async with StampedeGuard.from_url(secure_url(secure), namespace=namespace) as guard:
            assert await guard.get_or_compute("k:1", _seven) == 7
            for _ in range(2):
                await secure.refuse()
                while not guard.engine.runtime().session.away:
                    await guard.get_or_compute("k:2", _seven)
                await secure.listen()
                await until(lambda: not guard.engine.runtime().session.away)
            assert len(contexts) == 1

    async def test_a_certificate_that_was_rotated_is_read_by_the_next_connection(
        self, secure: FaultProxy, contexts: list[str], tmp_path: Path, namespace: str
    ) -> None:
        file = tmp_path / "ca.pem"
        shutil.copy(CERTIFICATE, file)
        url = f"rediss://127.0.0.1:{secure.port}?ssl_ca_certs={file}"
        async with StampedeGuard.from_url(url, namespace=namespace) as guard:
            await guard.get_or_compute("k:1", _seven)
            file.write_text(CERTIFICATE.read_text() + "\n# rotated\n")
            secure.cut()
            await until(lambda: not guard.engine.runtime().session._lane.connected)  # type: ignore[attr-defined]
            await guard.get_or_compute("k:2", _seven)
            await until(lambda: len(contexts) == 2)
            assert set(contexts) == {"stampede_guard tls"}

    async def test_a_cluster_has_one_for_all_its_masters(
        self, valkey_cluster: ValkeyCluster, contexts: list[str], namespace: str
    ) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        async with contextlib.AsyncExitStack() as stack:
            proxies = {
                server.port: await stack.enter_async_context(FaultProxy(server.port, tls=context))
                for server in valkey_cluster.servers
            }
            store = store_from_url(
                f"rediss+cluster://127.0.0.1:{next(iter(proxies.values())).port}?ssl_ca_certs={CERTIFICATE}"
            )
            assert isinstance(store, ClusterStore)
            store.remap = lambda address: (address[0], proxies[address[1]].port)
            guard = await stack.enter_async_context(StampedeGuard(store, namespace=namespace))
            for number in range(20):
                assert await guard.get_or_compute(f"k:{number}", _seven) == 7
            assert contexts == ["stampede_guard tls"]


BROKEN = {
    "a missing authority": ("ssl_ca_certs={missing}", "ssl_ca_certs={missing}: No such file or directory"),
    "a missing certificate": ("ssl_certfile={missing}&ssl_keyfile={good}", "ssl_certfile={missing}"),
    "a missing key": ("ssl_ca_certs={good}&ssl_certfile={good}&ssl_keyfile={missing}", "ssl_keyfile={missing}"),
    "an authority that is none": ("ssl_ca_certs={nonsense}", "ssl_ca_certs={nonsense}"),
    "a certificate that is none": ("ssl_ca_certs={good}&ssl_certfile={nonsense}", "ssl_certfile={nonsense}"),
    "nobody trusts the server": ("", "certificate is not accepted"),
}  # fmt: skip


class TestConfigurationIsToldApartFromOutages:
    @pytest.mark.parametrize("what", BROKEN)
    async def test_health_the_log_and_an_event_name_what_is_wrong(
        self, what: str, secure: FaultProxy, tmp_path: Path, namespace: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        nonsense = tmp_path / "nonsense.pem"
        nonsense.write_text("no certificate")
        files = {"missing": tmp_path / "missing.pem", "good": CERTIFICATE, "nonsense": nonsense}
        options, shown = (text.format(**files) for text in BROKEN[what])
        told: list[Event] = []
        # What is no outage is not to look like one because the machine is busy.
        url = f"rediss://127.0.0.1:{secure.port}?socket_timeout={LONG}&{options}"
        async with StampedeGuard.from_url(url, namespace=namespace, hooks=(told.append,)) as guard:
            first = await guard.check_health()
            assert first.status == "refused" and shown in first.why
            for number in range(5):
                assert await guard.get_or_compute(f"k:{number}", _seven) == 7
            health = guard.health()
            assert health.status == "refused" and health.since and shown in health.why
            assert [event.kind for event in told if isinstance(event, Refused)] == ["configuration"]
            errors = [record for record in caplog.records if record.levelname == "ERROR"]
            assert len(errors) == 1 and shown in errors[0].getMessage()

    async def test_a_certificate_that_comes_later_ends_it(
        self, secure: FaultProxy, tmp_path: Path, namespace: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = tmp_path / "ca.pem"
        told: list[Event] = []
        url = f"rediss://127.0.0.1:{secure.port}?socket_timeout={LONG}&ssl_ca_certs={file}"
        async with StampedeGuard.from_url(url, namespace=namespace, hooks=(told.append,)) as guard:
            for number in range(3):
                await guard.get_or_compute(f"k:{number}", _seven)
            assert guard.health().status == "refused"
            shutil.copy(CERTIFICATE, file)
            await until(lambda: not guard.engine.runtime().session.away)
            assert guard.health().status == "ok"
            assert [event.kind for event in told if isinstance(event, Recovered)] == ["configuration"]
            assert "lets this guard in again" in caplog.text

    async def test_a_server_that_speaks_no_tls(self, server: ValkeyServer) -> None:
        session = store_from_url(f"rediss://127.0.0.1:{server.port}").open_session(RecordingListener())
        try:
            await asyncio.wait_for(session.read("shop:a"), PATIENCE)
        except StoreMisconfigured as error:
            assert "redis://" in str(error)
        except StoreUnavailable:
            pass  # a server that only hangs up says nothing about why
        await session.aclose()

    async def test_nobody_listens_is_an_outage(self, namespace: str) -> None:
        told: list[Event] = []
        url = f"redis://127.0.0.1:{free_port()}"
        async with StampedeGuard.from_url(url, namespace=namespace, hooks=(told.append,)) as guard:
            assert (await guard.check_health()).status == "away"
            for number in range(3):
                await guard.get_or_compute(f"k:{number}", _seven)
            assert guard.health().status == "away" and "127.0.0.1" in guard.health().why
            assert not [event for event in told if isinstance(event, Refused)]
            assert [event for event in told if isinstance(event, BreakerOpened)]

    async def test_a_host_that_nobody_knows_is_named(
        self, namespace: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import socket

        async def unknown(*args: Any, **kwargs: Any) -> Any:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
        async with StampedeGuard.from_url("redis://nohost.invalid:6379", namespace=namespace) as guard:
            health = await guard.check_health()
            assert health.status == "away" and "nohost.invalid" in health.why and "is unknown" in health.why

    async def test_a_wrong_password_is_a_refusal(self, own_valkey: ValkeyServer, namespace: str) -> None:
        url = own_valkey.url.replace("//", "//shop:wrong@")
        async with StampedeGuard.from_url(url, namespace=namespace) as guard:
            health = await guard.check_health()
            assert health.status == "refused" and "wrong@" not in health.why


class TestTheHealthEndpoint:
    async def test_it_asks_the_store_and_says_what_is_known(self, namespace: str) -> None:
        async with ScriptedServer() as server:
            guard = StampedeGuard.from_url(server.url, namespace=namespace)
            app = Starlette()
            app.add_route("/health", health_endpoint(guard))
            app.add_route("/ready", health_endpoint(guard, serving=("ok", "away", "full")))
            transport = httpx.ASGITransport(app=app)

            async def get(path: str) -> tuple[int, dict[str, Any]]:
                answer = await client.get(path)
                assert answer.headers["cache-control"] == "no-store"
                return answer.status_code, json.loads(answer.text)

            async with guard, httpx.AsyncClient(transport=transport, base_url="http://app") as client:
                assert guard.health().since is None, "nothing is known yet"
                code, found = await get("/health")
                assert (code, found["status"]) == (200, "ok") and found["since"]
                server.answers["acquire"] = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
                await guard.get_or_compute("k:1", _seven)
                code, found = await get("/health")
                assert (code, found["status"]) == (503, "full") and "memory" in found["why"]
                assert (await get("/ready"))[0] == 200
                server.answers["read"] = b"-NOPERM User u has no permissions to run the 'evalsha' command\r\n"
                assert (await get("/health"))[0] == (await get("/ready"))[0] == 503
                assert guard.health().status == "refused"

    async def test_of_a_guard_in_memory_it_is_well(self) -> None:
        async with StampedeGuard.from_url("memory://") as guard:
            assert (await guard.check_health()).ok

    def test_a_status_that_there_is_not_is_an_error(self) -> None:
        with pytest.raises(Misuse, match="fine"):
            health_endpoint(StampedeGuard.from_url("memory://"), serving=("fine",))
