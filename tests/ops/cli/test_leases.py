"""leases: what operators see of who holds what, and how they have it given back."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard.errors import LeaseLost
from stampede_guard.leases import RedisLeases
from tests.ops.cli.conftest import Operator


@pytest.fixture
async def leases(server: ValkeyServer, namespace: str) -> AsyncIterator[RedisLeases]:
    async with RedisLeases.from_url(
        server.url, namespace=namespace, label="pod seven", restart="trust"
    ) as made:
        yield made


async def test_who_holds_what_is_listed_and_shown(operator: Operator, leases: RedisLeases) -> None:
    assert "No leases in namespace" in (await operator.call("leases", "list")).out
    async with leases.hold("import"):
        async with leases.hold("report", wait=0):
            pass
        told = (await operator.call("leases", "list")).out
        assert "pod seven" in told
        assert "2 leases, 1 held" in told
        found = {
            view["name"]: view for view in (await operator.call("leases", "list", "--json")).json["leases"]
        }
        assert found[leases.full("import")]["held"] is True
        assert found[leases.full("report")]["held"] is False
        told = (await operator.call("leases", "show", "import")).out
        assert "held by    pod seven" in told
        assert f"token      {found[leases.full('import')]['token']}" in told
    told = await operator.call("leases", "show", "nothing")
    assert (told.code, "nobody ever had a lease 'nothing'" in told.err) == (2, True)


async def test_a_holder_is_asked_to_stop_and_it_is_written_down(
    operator: Operator, leases: RedisLeases
) -> None:
    told = (await operator.call("leases", "release", "import", "--token", "7", "--by", "ops", "--json")).json
    assert told == {"released": False, "token": None}
    with pytest.raises(LeaseLost, match="ops"):
        async with leases.hold("import", lease_ttl=6) as lease:
            wrong = await operator.call("leases", "release", "import", "--token", "7", "--by", "ops")
            assert (wrong.code, f"held under token {lease.token}" in wrong.err) == (1, True)
            token = str(lease.token)
            told = await operator.call("leases", "release", "import", "--token", token, "--by", "ops")
            assert (told.code, "its holder was asked to stop" in told.out) == (0, True)
            async with asyncio.timeout(60):
                await asyncio.Event().wait()
    told = await operator.call("leases", "show", "import")
    assert "held by    nobody" in told.out
    assert "operator   ops asked for release" in told.out


async def test_at_once_means_a_warning(operator: Operator, leases: RedisLeases) -> None:
    with pytest.raises(LeaseLost):
        async with leases.hold("import") as lease:
            token = str(lease.token)
            told = await operator.call(
                "leases", "release", "import", "--token", token, "--by", "ops", "--now"
            )
            assert "two processes may act as its holder" in told.out
            await lease.check()


async def test_a_command_without_a_back_end_says_how_to_give_one(operator: Operator) -> None:
    none = {"STAMPEDE_GUARD_URL": "", "STAMPEDE_GUARD_LEASES_URL": "", "DATABASE_URL": "", "REDIS_URL": ""}
    told = await operator.call("leases", "list", **none)
    assert (told.code, "--url postgresql://" in told.err) == (2, True)
    told = await operator.call("leases", "list", "--url", "mysql://u:hunter2@h/d")
    assert (told.code, "not in 'mysql'" in told.err, "hunter2" in told.err) == (
        2,
        True,
        False,
    )


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1:1/0", "valkey://127.0.0.1:1/0", "postgresql+asyncpg://127.0.0.1:1/shop"]
)
async def test_a_back_end_that_is_away_is_one_sentence(operator: Operator, url: str) -> None:
    told = await operator.call("leases", "list", "--url", url)
    assert told.code == 1
    assert told.err.startswith("stampede-guard: ")
    assert "Traceback" not in told.err


async def test_without_a_name_the_host_is_written_down(operator: Operator, leases: RedisLeases) -> None:
    with pytest.raises(LeaseLost):
        async with leases.hold("import") as lease:
            told = await operator.call(
                "leases", "release", "import", "--token", str(lease.token), "--now", USER=""
            )
            assert told.code == 0
            await lease.check()
    (audit,) = await leases.audits()
    assert audit.by.endswith(f"@{socket.gethostname()}")


@pytest.mark.parametrize(
    "command",
    [
        ("list", "--limit", "0"),
        ("list", "--namespace", "a b"),
        ("list", "--url", "memory://"),
        ("list", "--url", "redis://h:x/0"),
        ("list", "--url", "postgresql://u:hunter2@h:x/d"),
        ("show",),
        ("show", ""),
        ("release", "import"),
        ("release", "import", "--token", "abc"),
        ("release", "import", "--token", "-5"),
        ("release", "", "--token", "5"),
    ],
)
async def test_a_command_that_means_nothing_is_exit_code_2_and_says_why(
    operator: Operator, command: tuple[str, ...]
) -> None:
    told = await operator.call("leases", *command)
    assert (told.code, told.out) == (2, "")
    assert told.err
    assert "hunter2" not in told.err
