"""The operator in docs/redis.md has every right that the commands need, and none that they do not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.herd.valkey import ValkeyServer
from tests.ops.cli.conftest import Operator
from tests.stores.test_rights import denied, operators_rights, rights, told


@pytest.fixture
def server() -> Iterator[ValkeyServer]:
    with ValkeyServer() as started:
        yield started


COMMANDS = (
    ["keys"],
    ["show", "=k:1"],
    ["mode", "shop:k", "bypass", "--force"],
    ["mode"],
    ["stats"],
    ["top", "--json", "--wait", "0"],
    ["mode", "shop:k", "default"],
    ["invalidate", "--match", "*", "--yes"],
    ["purge", "--prefix", "/"],
    ["purge", "--tag", "a"],
    ["urls"],
    ["doctor"],
)


async def refused(server: ValkeyServer, *taken: str) -> list[str]:
    """What an operator was refused in all commands; his rights without `taken`."""
    told(server, "ACL", "SETUSER", "shop", "reset", *rights(), *operators_rights())
    if taken:
        told(server, "ACL", "SETUSER", "shop", *[f"-{right}" for right in taken])
    told(server, "SET", "{shop:=k:1}:v", "SG1" + "0" * 40, "PX", "60000")
    told(server, "SCRIPT", "FLUSH")
    told(server, "ACL", "LOG", "RESET")
    operator = Operator(f"redis://shop:password@127.0.0.1:{server.port}/0", "shop")
    for command in COMMANDS:
        assert (await operator.call(*command)).code in ((0,) if not taken else (0, 1)), operator.said
    return denied(server)


async def test_with_the_rights_in_the_page_no_command_is_refused_anything(server: ValkeyServer) -> None:
    assert await refused(server) == []


async def test_none_of_an_operators_rights_can_be_left_out(server: ValkeyServer) -> None:
    missed = {right: await refused(server, right[1:]) for right in operators_rights()}
    assert [right for right, said in missed.items() if f"command {right[1:]}" not in said] == []
