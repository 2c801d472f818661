"""`stampede-guard doctor` on real servers, in the hands of users with more and fewer rights."""

from __future__ import annotations

from typing import Any

import pytest

from bench.herd.cluster import ValkeyCluster
from bench.herd.valkey import ValkeyServer
from stampede_guard.ops.doctor.trials import RIGHTS
from tests.ops.cli.conftest import Operator, Told
from tests.stores.test_rights import rights


def levels(told: Told) -> dict[str, str]:
    return {finding["check"]: finding["level"] for finding in told.json}


def finding(told: Told, check: str) -> dict[str, Any]:
    return next(finding for finding in told.json if finding["check"] == check)


def user(server: ValkeyServer, *allowed: str) -> str:
    """The URL of a user with these rights."""
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "shop", "reset", *rights(), *allowed)
    return f"redis://shop:password@127.0.0.1:{server.port}/0"


def test_a_healthy_server_is_found_healthy(operator: Operator) -> None:
    told = operator.run("doctor")
    assert told.code == 0, told.out + told.err
    assert "fail" not in told.out
    assert "redis://:***@127.0.0.1" in told.out
    assert "12 ok, 1 warn" in told.out, "an unlimited memory is the one remark about a test server"


async def test_it_leaves_nothing_behind(operator: Operator, server: ValkeyServer) -> None:
    await operator.call("doctor")
    with server.client() as client:
        assert client.keys(f"*{operator.namespace}*") == []


async def test_a_user_with_the_rights_of_the_page_lacks_none(
    operator: Operator, server: ValkeyServer
) -> None:
    told = await operator.call("doctor", "--json", "--url", user(server), "-n", "shop")
    assert told.code == 0
    assert levels(told)["rights"] == "ok"
    assert levels(told)["sign of life"] == "ok"
    assert {levels(told)[check] for check in ("server", "eviction", "memory", "persistence")} == {"unknown"}


@pytest.mark.parametrize("looking", [(), ("+acl|whoami", "+acl|dryrun")])
@pytest.mark.parametrize("right", ["hset", "mget", "publish", "pubsub|numsub", "hgetall"])
async def test_a_right_that_is_lacking_is_named_whether_or_not_acl_may_be_asked(
    operator: Operator, server: ValkeyServer, right: str, looking: tuple[str, ...]
) -> None:
    told = await operator.call("doctor", "--json", "--url", user(server, f"-{right}", *looking), "-n", "shop")
    lacking = finding(told, "rights")
    assert (lacking["level"], told.code) == (("fail", 1) if right in ("hset", "mget") else ("warn", 0))
    assert f"+{right}" in lacking["mend"]


@pytest.mark.parametrize("looking", [(), ("+acl|whoami", "+acl|dryrun")])
async def test_keys_of_another_namespace_are_named_as_such(
    operator: Operator, server: ValkeyServer, looking: tuple[str, ...]
) -> None:
    told = await operator.call("doctor", "--json", "--url", user(server, *looking), "-n", "other")
    assert "~{other:*" in finding(told, "rights")["mend"]
    assert told.code == 1


async def test_the_channel_of_changes_is_asked_about(operator: Operator, server: ValkeyServer) -> None:
    url = user(server, "resetchannels", "&stampede_guard:inbox:*", "+acl|whoami", "+acl|dryrun")
    told = await operator.call("doctor", "--json", "--url", url, "-n", "shop")
    assert (finding(told, "rights")["level"], told.code) == ("warn", 0)
    assert "&stampede_guard:changes:shop" in finding(told, "rights")["mend"]


def test_every_right_of_the_page_is_tried() -> None:
    named = {word[1:] for word in rights() if word.startswith("+")} - {"client|setinfo", "client|setname"}
    assert set(RIGHTS) == named


async def test_a_replica_is_told_from_a_master(operator: Operator, server: ValkeyServer) -> None:
    with ValkeyServer(
        options={"replicaof": f"127.0.0.1 {server.port}", "masterauth": server.options["requirepass"]}
    ) as replica:
        told = await operator.call("doctor", "--json", "--url", replica.url)
    assert told.code == 1
    assert finding(told, "role")["seen"] == "it is a slave"


async def test_a_node_of_a_cluster_given_as_a_server_is_told(
    operator: Operator, valkey_cluster: ValkeyCluster
) -> None:
    told = await operator.call("doctor", "--json", "--url", valkey_cluster.servers[0].url)
    assert told.code == 1
    assert "redis+cluster://" in finding(told, "cluster")["mend"]


async def test_all_masters_of_a_cluster_are_examined(
    operator: Operator, valkey_cluster: ValkeyCluster
) -> None:
    told = await operator.call("doctor", "--json", "--url", valkey_cluster.url)
    assert told.code == 0, told.out
    assert len({finding["server"] for finding in told.json if finding["check"] == "rights"}) == 3
    assert finding(told, "cluster")["seen"] == "3 masters serve all 16384 slots, 0 replicas"


async def test_a_store_that_is_away_is_the_finding(operator: Operator) -> None:
    told = await operator.call("doctor", "--json", "--url", "redis://127.0.0.1:1/0")
    assert told.code == 1
    assert levels(told)["reachability"] == "fail"
    told = await operator.call("doctor", "--json", "--url", "redis+cluster://127.0.0.1:1")
    assert (told.code, levels(told)["reachability"]) == (1, "fail")


async def test_a_forgotten_switch_is_remarked(operator: Operator) -> None:
    await operator.call("mode", "*", "bypass", "--force")
    told = await operator.call("doctor", "--json")
    assert finding(told, "modes")["level"] == "warn"
    await operator.call("mode", "*", "default")
