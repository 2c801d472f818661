"""An operator who looks at the wrong namespace, at half a cluster, or gives options that nobody reads."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from bench.herd.cluster import ValkeyCluster
from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from stampede_guard.api.defaults import configure, default_guard
from stampede_guard.api.urls import store_from_url
from stampede_guard.errors import Misuse, UrlError
from stampede_guard.leases import MemoryLeases
from stampede_guard.ops.cli.secrets import without_secrets
from stampede_guard.stores.connections import inboxname
from stampede_guard.stores.connections.inboxname import inbox_name, place_in, processes_by_namespace
from stampede_guard.testing import FaultyStore
from tests.ops.cli.conftest import ROOT, Operator
from tests.support.guards import Guards

# --- one environment for programs and the command -------------------------------------------------


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAMPEDE_GUARD_NAMESPACE", "shop")


@pytest.mark.usefixtures("named")
def test_every_face_takes_its_namespace_from_the_environment() -> None:
    assert StampedeGuard.from_url("memory://").namespace == "shop"
    assert MemoryLeases().namespace == "shop"
    configure(None)
    try:
        assert default_guard().namespace == "shop"
    finally:
        configure(None)


@pytest.mark.usefixtures("named")
def test_the_program_decides_where_it_names_a_namespace() -> None:
    assert StampedeGuard.from_url("memory://", namespace="cart").namespace == "cart"
    assert MemoryLeases(namespace="cart").namespace == "cart"


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAMPEDE_GUARD_NAMESPACE", "")
    assert StampedeGuard.from_url("memory://").namespace == "default"


def test_a_bad_variable_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAMPEDE_GUARD_NAMESPACE", "a b")
    with pytest.raises(Misuse, match=r"\$STAMPEDE_GUARD_NAMESPACE \('a b'\)"):
        StampedeGuard.from_url("memory://")


# --- the kill switch says whom it reached ---------------------------------------------------------

PROGRAM = """
import asyncio, sys
from stampede_guard import StampedeGuard

async def main():
    guard = StampedeGuard.from_url(sys.argv[1])
    async def compute():
        return 1
    await guard.get_or_compute("key", compute, ttl=60)
    print("connected", flush=True)
    await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@pytest.fixture
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as started:
        yield started


def program(server: ValkeyServer, namespace: str) -> subprocess.Popen[str]:
    """A process with a guard that names no namespace in its code."""
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, server.url],
        cwd=ROOT,
        env={**os.environ, "STAMPEDE_GUARD_NAMESPACE": namespace},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None and started.stdout.readline() == "connected\n"
    return started


def test_a_switch_counts_the_processes_of_its_namespace_and_no_others(server: ValkeyServer) -> None:
    running = [program(server, "shop"), program(server, "shop"), program(server, "shop:eu")]
    try:
        told = Operator(server.url, "shop").run("mode", "*", "bypass")
        assert told.code == 0
        assert "2 processes of namespace 'shop'" in told.out
        assert Operator(server.url, "shop").run("mode", "*", "shadow", "--json").json["processes"] == 2
    finally:
        for process in running:
            process.communicate("", timeout=60)


def test_a_switch_in_a_namespace_without_processes_fails_and_names_those_that_have_some(
    server: ValkeyServer,
) -> None:
    running = program(server, "shop")
    try:
        mistaken = Operator(server.url, "default")
        told = mistaken.run("mode", "*", "bypass")
        assert told.code == 1
        assert "no process of namespace 'default'" in told.err and "shop (1)" in told.err
        assert mistaken.run("mode", "--json").json == {}
        # Meant: for processes to come; and what stands can be taken back.
        assert mistaken.run("mode", "*", "bypass", "--force").code == 0
        assert mistaken.run("mode", "*", "default").code == 0
        assert mistaken.run("mode", "*", "default").code == 1
    finally:
        running.communicate("", timeout=60)


async def test_the_loops_and_guards_of_a_process_are_one_process(server: ValkeyServer) -> None:
    async with Guards(server.url, "shop") as guards:
        for _ in range(3):
            await guards.guard().engine.runtime().session.switches("shop")
        told = await Operator(server.url, "shop").call("mode", "*", "bypass", "--json")
        assert told.json["processes"] == 1


@pytest.mark.parametrize(
    ("inboxes", "counted"),
    [
        ([], {}),
        (["stampede_guard:inbox:5f"], {}),
        (["stampede_guard:inbox:5f:p:shop", "stampede_guard:inbox:60:p:shop"], {"shop": 1}),
        (["stampede_guard:inbox:5f:p:shop", "stampede_guard:inbox:60:q:shop:eu"], {"shop": 1, "shop:eu": 1}),
        (["stampede_guard:inbox:5f:p:", "stampede_guard:inbox:5f::shop", "stampede_guard:inbox:"], {}),
    ],
)
def test_processes_are_counted_by_the_names_of_inboxes(inboxes: list[str], counted: dict[str, int]) -> None:
    assert processes_by_namespace(inboxes) == counted


def test_an_inbox_tells_where_its_process_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inboxname, "_known", {})
    monkeypatch.setenv("POD_NAME", "shop:7~b c\udcff")
    place = place_in(inbox_name("shop:eu"))
    assert place is not None
    assert (place.host, place.pid, place.pod) == (socket.gethostname(), os.getpid(), "shop:7~b c?")
    assert processes_by_namespace([inbox_name("shop:eu")]) == {"shop:eu": 1}
    for other in ("", "stampede_guard:inbox:" + "a" * 32, f"stampede_guard:inbox:{'a' * 32}:{'b' * 32}:shop"):
        assert place_in(other) is None, "of leases, or of an older version"


def test_an_inbox_tells_whose_it_is_and_a_forked_child_is_another_process() -> None:
    assert processes_by_namespace([inbox_name("shop:eu"), inbox_name("shop:eu")]) == {"shop:eu": 1}
    assert processes_by_namespace([inbox_name("")]) == {}
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, inbox_name("shop").encode())
        os._exit(0)
    os.waitpid(child, 0)
    childs = os.read(reading, 1000).decode()
    assert processes_by_namespace([childs, inbox_name("shop")]) == {"shop": 2}


# --- one dead master --------------------------------------------------------------------------------


@pytest.fixture(params=["yes", "no"])
async def halved(request: pytest.FixtureRequest) -> AsyncIterator[tuple[ValkeyCluster, Operator]]:
    """A cluster with entries everywhere, of which one master is frozen; with and without the need of full coverage."""
    with ValkeyCluster(options={"cluster-require-full-coverage": request.param}) as cluster:
        url = cluster.url
        async with Guards(url, "shop") as guards:
            guard = guards.guard(ttl=300)

            async def compute() -> int:
                return 1

            for number in range(60):
                await guard.get_or_compute(f"key:{number}", compute)
        dead = cluster.servers[1]
        os.kill(dead.pid, signal.SIGSTOP)
        try:
            yield cluster, Operator(url, "shop")
        finally:
            os.kill(dead.pid, signal.SIGCONT)


async def test_the_entries_of_the_masters_that_answer_are_listed_and_the_dead_one_is_named(
    halved: tuple[ValkeyCluster, Operator],
) -> None:
    cluster, operator = halved
    address = f"127.0.0.1:{cluster.servers[1].port}"
    told = await operator.call("keys", "--json")
    assert told.code == 1
    assert 0 < len(told.json["entries"]) < 60
    assert address in [one["server"] for one in told.json["unreached"]]
    told = await operator.call("keys")
    assert told.code == 1 and "=key:" in told.out and address in told.err


@pytest.mark.parametrize("halved", ["no"], indirect=True)
async def test_the_entries_of_the_masters_that_answer_are_invalidated_and_the_dead_one_is_named(
    halved: tuple[ValkeyCluster, Operator],
) -> None:
    cluster, operator = halved
    told = await operator.call("invalidate", "--match", "*", "--yes", "--json")
    assert told.code == 1
    assert 0 < told.json["invalidated"] < 60
    assert [one["server"] for one in told.json["unreached"]] == [f"127.0.0.1:{cluster.servers[1].port}"]


async def test_where_no_server_answers_the_command_fails_as_a_whole(server: ValkeyServer) -> None:
    server.pause()
    told = await Operator(server.url, "shop").call("keys", "--json")
    server.resume()
    assert told.code == 1 and list(told.json) == ["error"]


# --- what the command hides -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "text", "printed"),
    [
        ("", "write redis://localhost:6379/0: in a password, write @ as %40", None),
        ("", "write scheme://user:password@host:port,host:port", None),
        ("redis://u:a@h/0", "a store at all: a, and rainy days", "*** store at all: ***, and rainy days"),
        ("redis://u:hunter22@h", "no hunter22 at redis://u:hunter22@h", "no *** at redis://u:***@h"),
        (
            "redis://h",
            "failed: rediss://u:other@h/0, write to me@h",
            "failed: rediss://u:***@h/0, write to me@h",
        ),
        ("redis://u:p@ss w@h", "cannot read redis://u:p@ss w@h", "cannot read redis://u:***@h"),
        ("redis://h", "redis://h/0?ssl_password=abc&db=1", "redis://h/0?ssl_password=***&db=1"),
    ],
)
def test_passwords_are_hidden_and_nothing_else(url: str, text: str, printed: str | None) -> None:
    assert without_secrets(text, url) == (text if printed is None else printed)


def test_the_example_in_an_error_can_be_read() -> None:
    told = Operator("redis://user:hunter2@host:port/0", "shop").run("keys")
    assert told.code == 2
    assert "redis://localhost:6379/0" in told.err and "hunter2" not in told.err


# --- options of a URL that nobody reads -------------------------------------------------------------

HOSTS = [
    "redis://h:1/0",
    "rediss://h:1/0",
    "unix:///tmp/s",
    "redis+cluster://h:1,h:2",
    "redis+sentinel://h:1/mymaster",
]
REFUSED = [
    "max_connections=50",
    "timeout=3",
    "socket_connect_timeout=2",
    "health_check_interval=30",
    "protocol=3",
    "retry_on_timeout=true",
    "decode_responses=true",
    "legacy_responses=false",
    "socket_timeout=0",
    "socket_timeout=-1",
    "socket_timeout=31",
    "socket_timeout=nan",
    "socket_timeout=soon",
]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("option", REFUSED)
def test_an_option_without_an_effect_is_an_error_that_says_what_to_write(host: str, option: str) -> None:
    with pytest.raises(UrlError) as caught:
        StampedeGuard.from_url(f"{host}?{option}")
    assert option.partition("=")[0] in str(caught.value)


@pytest.mark.parametrize("host", HOSTS)
def test_the_time_out_of_a_url_is_the_deadline_of_an_answer(host: str) -> None:
    assert store_from_url(host).deadline == 0.5  # type: ignore[attr-defined]
    assert store_from_url(f"{host}?socket_timeout=0.2").deadline == 0.2  # type: ignore[attr-defined]
    # What it is anyway may be said.
    store_from_url(f"{host}?protocol=2&decode_responses=false")


# --- a store that refuses is no 500 -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["FastAPI", "Starlette"])
async def test_an_endpoint_whose_invalidation_is_refused_answers_503(kind: str) -> None:
    store = FaultyStore()
    async with StampedeGuard(store, namespace="shop") as guard:

        async def drop(_: Request) -> JSONResponse:
            return JSONResponse(await guard.invalidate("report"))

        app = FastAPI() if kind == "FastAPI" else Starlette()
        app.router.routes.append(Route("/drop", drop, methods=["POST"]))
        guard.install(app)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
            assert (await client.post("/drop")).json() == "done"
            store.refuse()
            answer = await client.post("/drop")
            assert answer.status_code == 503
            assert int(answer.headers["Retry-After"]) >= 1
            assert "set to refuse" not in answer.text, "what the store says is not for clients"
