"""Each check judges facts, without a server: what is fine, what is not, and what to do about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stampede_guard.ops.doctor import Diagnosis, Facts, ServerFacts, examine
from stampede_guard.ops.doctor.checks import OF_EACH_SERVER, OF_THE_WHOLE

INFO = {
    "redis_version": "7.2.4",
    "role": "master",
    "connected_slaves": "1",
    "used_memory": str(100 * 1024**2),
    "maxmemory": str(1000 * 1024**2),
    "maxmemory_policy": "allkeys-lfu",
    "aof_enabled": "1",
    "loading": "0",
    "rdb_last_bgsave_status": "ok",
    "cluster_enabled": "0",
}
SERVER = ServerFacts(
    "10.0.0.1:6379",
    latencies=(0.0004,) * 49,
    info=INFO,
    config={"maxmemory-policy": "allkeys-lfu", "save": ""},
    user="shop",
    denied=(),
    numsub=True,
    clock_step=0.05,
    clock_pause=0.05,
    clock_offset=0.002,
)
FACTS = Facts(
    kind="server",
    url="rediss://10.0.0.1:6379/0",
    tls=True,
    namespace="shop",
    versions={"Python": "3.13.0", "stampede_guard": "0.1.0", "redis": "7.2.0", "msgspec": "0.20.0"},
    servers=(SERVER,),
    switches={},
)


def found(check: str, *, facts: dict[str, Any] | None = None, **server: Any) -> Diagnosis:
    """The one finding of a check about a server that differs in these facts from a good one."""
    (finding,) = [
        finding
        for finding in examine(replace(FACTS, servers=(replace(SERVER, **server),), **(facts or {})))
        if finding.check == check
    ]
    return finding


def info(**changed: str | None) -> dict[str, str]:
    return {name: value for name, value in (INFO | changed).items() if value is not None}


def test_a_good_store_is_found_good_by_every_check() -> None:
    findings = examine(FACTS)
    assert len(findings) == len(OF_EACH_SERVER) + len(OF_THE_WHOLE) - 1, (
        "no word of a cluster where there is none"
    )
    assert [finding for finding in findings if finding.level != "ok" or finding.mend] == []


def test_whatever_is_not_permitted_is_unknown_and_never_a_failure() -> None:
    blind = ServerFacts("10.0.0.1:6379")
    levels = {
        finding.check: finding.level for finding in examine(replace(FACTS, servers=(blind,), switches=None))
    }
    of_servers = {
        name: level for name, level in levels.items() if name not in ("reachability", "tls", "versions")
    }
    assert set(of_servers.values()) == {"unknown"}, of_servers


@pytest.mark.parametrize("finding", examine(replace(FACTS, servers=(ServerFacts("a"),))))
def test_everything_that_is_not_fine_says_what_was_seen(finding: Diagnosis) -> None:
    assert finding.seen


@pytest.mark.parametrize(
    ("check", "level", "changed", "mend"),
    [
        ("latency", "warn", {"latencies": (0.02,) * 49}, "one zone"),
        ("latency", "fail", {"latencies": (0.001,) * 48 + (0.7,)}, "SLOWLOG"),
        ("server", "fail", {"info": info(redis_version="6.2.14")}, "upgrade"),
        ("role", "fail", {"info": info(role="slave")}, "master's address"),
        ("rights", "fail", {"denied": ("get", "pubsub|numsub")}, "ACL SETUSER shop +get +pubsub|numsub"),
        ("rights", "fail", {"denied": ("~{shop:*",)}, "ACL SETUSER shop ~{shop:*"),
        ("rights", "warn", {"denied": ("pubsub|numsub",)}, "ACL SETUSER shop +pubsub|numsub"),
        (
            "rights",
            "warn",
            {"denied": ("&stampede_guard:changes:shop",)},
            "ACL SETUSER shop &stampede_guard:changes:shop",
        ),
        ("sign of life", "warn", {"numsub": False}, "+pubsub|numsub"),
        ("eviction", "warn", {"info": info(maxmemory="0")}, "set maxmemory"),
        ("eviction", "warn", {"config": {"maxmemory-policy": "allkeys-random"}}, "allkeys-lfu"),
        ("eviction", "warn", {"config": {"maxmemory-policy": "volatile-ttl"}}, "allkeys-lfu"),
        ("memory", "warn", {"info": info(used_memory=str(950 * 1024**2))}, "raise maxmemory"),
        (
            "memory",
            "fail",
            {"info": info(used_memory=str(950 * 1024**2), maxmemory_policy="noeviction")},
            "raise maxmemory",
        ),
        ("clock", "fail", {"clock_step": -3.0}, "chrony"),
        ("clock", "fail", {"clock_step": 3600.0}, "chrony"),
        ("clock", "fail", {"clock_step": 0.0}, "chrony"),
        ("clock", "warn", {"clock_offset": -300.0}, "NTP"),
        ("persistence", "fail", {"info": info(loading="1")}, "wait"),
        ("persistence", "fail", {"info": info(rdb_last_bgsave_status="err")}, "disk"),
        ("cluster", "fail", {"info": info(cluster_enabled="1")}, "redis+cluster://"),
    ],
)
def test_what_is_wrong_with_a_server_is_found_and_how_to_mend_it(
    check: str, level: str, changed: dict[str, Any], mend: str
) -> None:
    finding = found(check, **changed)
    assert finding.level == level
    assert mend in finding.mend


@pytest.mark.parametrize(
    ("check", "level", "changed", "text"),
    [
        ("reachability", "fail", {"failure": "no answer", "servers": ()}, "no answer"),
        ("tls", "warn", {"tls": False, "url": "redis://10.0.0.1:6379/0"}, "not encrypted"),
        ("tls", "ok", {"tls": False, "url": "redis://u:***@127.0.0.1:6379/0"}, "this machine"),
        ("tls", "warn", {"tls": False, "url": "redis://localhost.example.org:6379/0"}, "not encrypted"),
        ("versions", "fail", {"versions": {"redis": "5.0.8", "msgspec": "0.20.0"}}, "redis 5.0.8"),
        ("modes", "warn", {"switches": {"shop.quality": "bypass"}}, "shop.quality bypass"),
        ("cluster", "fail", {"kind": "cluster", "slots_covered": 16000}, "384 of 16384 slots"),
        ("cluster", "warn", {"kind": "cluster", "slots_covered": 16384}, "0 replicas"),
        ("cluster", "ok", {"kind": "cluster", "slots_covered": 16384, "replicas": 3}, "3 replicas"),
    ],
)
def test_what_is_wrong_with_the_whole_is_found(
    check: str, level: str, changed: dict[str, Any], text: str
) -> None:
    (finding,) = [finding for finding in examine(replace(FACTS, **changed)) if finding.check == check]
    assert finding.level == level
    assert text in finding.seen
    assert bool(finding.mend) == (level != "ok")


def test_of_several_masters_each_finding_names_its_own() -> None:
    lost = ServerFacts("10.0.0.2:6379", reached=False, errors={"connect": "no answer"})
    findings = examine(
        replace(FACTS, kind="cluster", slots_covered=16384, replicas=1, servers=(SERVER, lost))
    )
    assert {finding.server for finding in findings if finding.check == "latency"} == {"10.0.0.1:6379"}
    assert [finding.seen for finding in findings if finding.level == "fail"] == ["10.0.0.2:6379: no answer"]


def test_noeviction_and_least_used_are_fine_and_explained() -> None:
    for policy in ("noeviction", "allkeys-lru", "volatile-lfu"):
        finding = found("eviction", config={"maxmemory-policy": policy})
        assert finding.level == "ok" and policy in finding.seen
