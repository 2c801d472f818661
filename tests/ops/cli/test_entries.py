"""keys, show, explain, invalidate: what operators see of entries, and how they drop them."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import socket
import subprocess
import sys
from typing import Any

import httpx
import pytest

from stampede_guard import StampedeGuard
from stampede_guard.http.middleware import StampedeMiddleware
from tests.ops.cli.conftest import ROOT, Operator, Shop


def test_keys_lists_entries_by_function_as_a_process_of_its_own(operator: Operator, shop: Shop) -> None:
    told = operator.run("keys")
    assert told.code == 0, told.err
    assert re.search(r"project=7,region='eu'\s+fresh\s+\S+ (?:s|min)\s+10 min\s+\d{16}\s+8 B", told.out)
    assert re.search(r"=report:broken\s+failed", told.out)
    assert re.search(r"=slow:1\s+computing.*left\s+1\n", told.out)
    assert told.out.count("shop.quality") == 1, "once for all its entries"
    assert "4 entries: 2 fresh, 1 failed, 1 computing; 16 B of values" in told.out


async def test_keys_in_json_has_every_part(operator: Operator, shop: Shop) -> None:
    told = (await operator.call("keys", "*shop.quality*", "--json")).json
    assert (len(told["entries"]), told["more"]) == (2, False)
    entry = next(entry for entry in told["entries"] if "project=7" in entry["name"])
    assert entry["name"] == shop.quality.key(7)
    assert entry["state"] == "fresh"
    assert (entry["value"]["ttl"], entry["value"]["stale_ttl"], entry["value"]["size"]) == (300.0, 600.0, 8)
    assert entry["record"]["last"] == entry["value"]["token"]


async def test_keys_is_bounded_and_says_so(operator: Operator, shop: Shop) -> None:
    told = await operator.call("keys", "--limit", "2")
    assert "There are more than 2" in told.out
    assert (await operator.call("keys", "--limit", "2", "--json")).json["more"] is True
    assert (await operator.call("keys", "--limit", "10001")).code == 2


async def test_a_pattern_means_its_marks_and_a_namespace_does_not(operator: Operator, shop: Shop) -> None:
    assert len((await operator.call("keys", "=report:?roken", "--json")).json["entries"]) == 1
    assert len((await operator.call("keys", "--json", "-n", "*")).json["entries"]) == 0
    told = await operator.call("keys", "-n", operator.namespace[:-1] + "?")
    assert (told.code, "No entries in namespace" in told.out) == (0, True)
    assert "--namespace" in told.out
    told = await operator.call("keys", "nothing*")
    assert "match 'nothing*': the pattern covers all text after" in told.out


async def test_a_tag_is_shown_as_one_and_its_name_outdates_the_entries_with_it(
    operator: Operator, shop: Shop
) -> None:
    runs: list[int] = []

    async def count() -> int:
        runs.append(1)
        return len(runs)

    async def tagged() -> int:
        return await shop.guard.get_or_compute("total", count, ttl=300, tags=("project:7",))

    assert (await tagged(), await tagged()) == (1, 1)
    told = await operator.call("keys")
    assert re.search(r": tags +\n +#project:7 +tag +\d+ min", told.out)
    assert "5 entries: 3 fresh" in told.out and "; 1 tags" in told.out
    states = [entry["state"] for entry in (await operator.call("keys", "#*", "--json")).json["entries"]]
    assert states == ["tag"]
    assert "tag       a version" in (await operator.call("show", "#project:7")).out
    told = await operator.call("explain", f"{operator.namespace}:#project:7")
    assert (told.code, "tag        project:7" in told.out) == (0, True)
    told = await operator.call("invalidate", "#project:7")
    assert (told.code, told.out) == (0, "1 invalidated\n")
    assert (await operator.call("keys", "#*", "--json")).json["entries"] == [], "no record is left behind"
    assert await tagged() == 2


async def test_a_tenants_entry_can_be_named_as_it_is_listed(operator: Operator, shop: Shop) -> None:
    async def compute() -> int:
        return 1

    await shop.guard.within("acme").get_or_compute("r", compute, ttl=300)
    (entry,) = (await operator.call("keys", "acme:*", "--json")).json["entries"]
    told = await operator.call("show", entry["name"])
    assert (told.code, told.out.partition("\n")[0]) == (0, f"{operator.namespace}:acme:=r")


async def test_show_tells_everything_of_a_value_but_the_value(operator: Operator, shop: Shop) -> None:
    told = await operator.call("show", shop.quality.key(7))
    assert told.code == 0
    assert re.search(
        r"value +fresh, gone in 15 min \(ttl 300 s \+ 600 s stale\), 8 B, token \d{16}", told.out
    )
    assert "lease     free" in told.out
    assert "waiters   none" in told.out
    assert "score" not in told.out
    told = await operator.call("show", shop.quality.key(7), "--value")
    assert "{'score': 7}" in told.out


async def test_show_tells_who_computes_and_who_waits(operator: Operator, shop: Shop) -> None:
    told = (await operator.call("show", "=slow:1")).out
    assert re.search(
        r"lease +held by \S+/\d+.*, flight holder for [\d.]+ s, (5\d|60) s left; its owner is there", told
    )
    assert "waiters   1 processes" in told
    lease = (await operator.call("show", "=slow:1", "--json")).json["lease"]
    host = socket.gethostname()
    pod = os.environ.get("POD_NAME") or os.environ.get("HOSTNAME") or host
    assert lease["holder"] == {"host": host, "pid": os.getpid(), "pod": pod}
    assert f"{pod}/{os.getpid()}" in (await operator.call("keys")).out, "as `leases show` has it"
    assert re.search(r"fallback +by flight beside, slot for [\d.]+ s", told)
    await shop.guard.invalidate("slow:1")
    told = (await operator.call("show", "=slow:1")).out
    assert "an invalidation came later, so its value will not be stored" in told


async def test_show_names_the_type_of_a_failure_and_not_what_it_says(operator: Operator, shop: Shop) -> None:
    told = await operator.call("show", "=report:broken")
    assert "failure   LookupError; no caller tries again for" in told.out
    assert "private" not in told.out + (await operator.call("show", "=report:broken", "--json")).out


async def test_a_note_that_a_value_is_not_to_be_stored_is_no_fresh_entry(
    operator: Operator, shop: Shop
) -> None:
    async def personal() -> int:
        return 7

    await shop.guard.get_or_compute("own:1", personal, should_cache=lambda value: False, uncacheable_ttl=60)
    told = (await operator.call("keys", "=own*", "--json")).json
    assert [entry["state"] for entry in told["entries"]] == ["uncacheable"]
    shown = await operator.call("keys", "=own*")
    assert "uncacheable" in shown.out and "1 entry: 1 uncacheable; 0 B of values" in shown.out
    assert "not to be stored" in (await operator.call("show", "=own:1")).out
    assert (await operator.call("show", "=own:1", "--json")).json["state"] == "uncacheable"


async def test_neither_is_a_note_of_the_http_cache(operator: Operator, shop: Shop) -> None:
    async def private(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"yours"})

    web = StampedeMiddleware(private, guard=shop.guard)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=web), base_url="http://shop") as client:
        assert (await client.get("/account")).text == "yours"
    (entry,) = (await operator.call("keys", "http*", "--json")).json["entries"]
    assert entry["state"] == "uncacheable"
    shown = await operator.call("keys", "http*")
    assert "1 entry: 1 uncacheable; 0 B of values" in shown.out
    assert "value     none" in (await operator.call("show", entry["name"])).out


async def test_show_takes_a_name_in_each_of_its_forms(operator: Operator, shop: Shop) -> None:
    whole = shop.quality.key(7)
    for name in (whole, whole.removeprefix(operator.namespace + ":"), f"{{{whole}}}:v", f"{{{whole}}}"):
        assert (await operator.call("show", name, "--json")).json["name"] == whole


async def test_show_of_what_is_not_there_says_so(operator: Operator, shop: Shop) -> None:
    told = await operator.call("show", "=nothing")
    assert (told.code, told.out) == (1, f"{operator.namespace}:=nothing: nothing is stored.\n")


def test_explain_asks_no_server(operator: Operator, shop: Shop) -> None:
    told = operator.run(
        "explain", shop.quality.key(8, region="x" * 100), STAMPEDE_GUARD_URL="redis://nowhere:1"
    )
    assert told.code == 0, told.err
    assert "function   shop.quality" in told.out
    assert "part       project = 8" in told.out
    assert re.search(r"part +region = ~[0-9a-f]{32}  \(hashed", told.out)
    told = operator.run("explain", "shop:=report:a%20b%7B", "--json")
    assert told.json["parts"] == [{"label": "key", "text": "report:a b{", "hashed": False}]


async def test_explain_of_what_is_no_name_says_what_one_looks_like(operator: Operator) -> None:
    told = await operator.call("explain", "nonsense")
    assert told.code == 2
    assert "write what `stampede-guard keys` shows" in told.err


async def test_invalidate_drops_an_entry_for_everybody(operator: Operator, shop: Shop) -> None:
    told = await operator.call("invalidate", shop.quality.key(7))
    assert (told.code, told.out) == (0, "1 invalidated\n")
    assert await shop.quality(7) == {"score": 7}
    assert shop.runs == [7, 8, 7]


async def test_invalidate_raises_the_fence_so_that_what_is_under_way_is_not_stored(
    operator: Operator, shop: Shop
) -> None:
    session, name = shop.guard.engine.runtime().session, f"{operator.namespace}:=slow:1"
    grant = await session.acquire(name, flight="holder", policy=shop.guard.policy)
    assert isinstance(grant, object)
    await operator.call("invalidate", "=slow:1")
    stored = await session.publish(
        name,
        flight="holder",
        grant=grant,
        outcome="value",
        body=b"1",
        policy=shop.guard.policy,  # type: ignore[arg-type]
    )
    assert stored is False


async def test_invalidate_by_pattern_asks_for_a_yes(operator: Operator, shop: Shop) -> None:
    told = await operator.call("invalidate", "--match", "*quality*")
    assert told.code == 2
    assert "2 entries" in told.err and "--yes" in told.err
    assert await shop.quality(7) == {"score": 7} and shop.runs == [7, 8]
    told = await operator.call("invalidate", "--match", "*quality*", "--yes", "--json")
    assert told.json == {"invalidated": 2, "failed": 0}
    await shop.quality(7)
    assert shop.runs == [7, 8, 7]


async def test_invalidate_refuses_more_than_its_limit(operator: Operator, shop: Shop) -> None:
    told = await operator.call("invalidate", "--match", "*", "--yes", "--limit", "3")
    assert told.code == 2
    assert "more than 3 entries match" in told.err
    assert (await operator.call("keys", "--json", "*quality*")).json["entries"][0]["state"] == "fresh"


@pytest.mark.parametrize("args", [[], ["=a", "--match", "*"]])
async def test_invalidate_needs_names_or_a_pattern(operator: Operator, args: list[str]) -> None:
    told = await operator.call("invalidate", *args)
    assert told.code == 2
    assert "names of entries, or --function NAME, or --match PATTERN" in told.err


async def test_all_masters_of_a_cluster_are_asked(valkey_cluster: object, namespace: str) -> None:
    from tests.support.guards import Guards
    from tests.support.sessions import LONG

    url: str = valkey_cluster.url  # type: ignore[attr-defined]
    operator = Operator(url, namespace)
    async with Guards(url, namespace, deadline=LONG) as guards:
        guard = guards.guard()

        async def compute() -> int:
            return 1

        for number in range(12):
            await guard.get_or_compute(f"k:{number}", compute)
        told = (await operator.call("keys", "--json")).json
        assert [entry["state"] for entry in told["entries"]] == ["fresh"] * 12
        assert (await operator.call("show", "=k:5")).code == 0
        assert "12 invalidated" in (await operator.call("invalidate", "--match", "*", "--yes")).out


async def test_behind_sentinels_the_master_is_asked(valkey_sentinel: object, namespace: str) -> None:
    hosts = ",".join(f"127.0.0.1:{port}" for port in valkey_sentinel.ports)  # type: ignore[attr-defined]
    operator = Operator(f"redis+sentinel://{hosts}/{valkey_sentinel.service}", namespace)  # type: ignore[attr-defined]
    told = await operator.call("keys")
    assert (told.code, "No entries" in told.out) == (0, True)


@pytest.mark.parametrize(("typed", "code", "left"), [("n", 1, [7, 8]), ("y", 0, [7, 8, 7])])
async def test_at_a_terminal_invalidate_by_pattern_asks_first(
    operator: Operator, shop: Shop, typed: str, code: int, left: list[int]
) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "stampede_guard", "invalidate", "--match", "*quality*"]
    environment = {
        **os.environ,
        "STAMPEDE_GUARD_URL": operator.url,
        "STAMPEDE_GUARD_NAMESPACE": operator.namespace,
    }
    try:
        os.write(ours, f"{typed}\n".encode())
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            cwd=ROOT,
            env=environment,
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert f"Drop 2 entries of '{operator.namespace}' that match '*quality*'?" in done.stderr
    assert done.returncode == code
    await shop.quality(7)
    assert shop.runs == left


async def test_keys_shows_the_fresh_and_the_stale_time_apart(operator: Operator, shop: Shop) -> None:
    told = await operator.call("keys", "*shop.quality*")
    assert re.search(r"state\s+fresh for\s+then stale", told.out)
    assert re.search(r"project=7,region='eu'\s+fresh\s+[45] min\s+10 min\s+\d{16}", told.out)
    value = (await operator.call("keys", "*shop.quality*", "--json")).json["entries"][0]["value"]
    assert 0 < value["left"] - 600 <= 300, "of the whole"
    entry = (await operator.call("keys", "*shop.quality*", "--json")).json["entries"][0]
    assert (0 < entry["fresh_left"] <= 300, entry["stale_left"]) == (True, 600)


async def test_invalidate_of_a_function_takes_its_name_or_the_last_part_of_it(
    operator: Operator, shop: Shop
) -> None:
    for name in ("quality", "shop.quality"):
        await shop.quality(7)
        await shop.quality(8)
        told = await operator.call("invalidate", "--function", name, "--yes", "--json")
        assert told.json == {"invalidated": 3, "failed": 0}
    left = (await operator.call("keys", "--json")).json["entries"]
    assert not [entry for entry in left if "quality" in entry["name"] and entry["value"]]
    assert [entry for entry in left if "=report:" in entry["name"]], "other entries stay"


async def test_invalidate_of_an_unknown_function_names_the_nearest_and_drops_nothing(
    operator: Operator, shop: Shop
) -> None:
    told = await operator.call("invalidate", "--function", "shop.qualty", "--yes")
    assert told.code == 2 and "the nearest are: shop.quality" in told.err
    told = await operator.call("invalidate", "--function", "quality")
    assert told.code == 2 and "2 entries of" in told.err and "belong to quality: add --yes" in told.err
    told = await operator.call("invalidate", "--function", "quality", "--match", "*", "--yes")
    assert told.code == 2 and "one of them" in told.err

    @shop.guard.locked_cache(ttl=300, name="reports.quality")
    async def another(project: int) -> int:
        return project

    await another(7)
    told = await operator.call("invalidate", "--function", "quality", "--yes")
    assert told.code == 2 and "write reports.quality or shop.quality" in told.err


async def test_an_empty_namespace_lists_those_that_exist(operator: Operator, shop: Shop) -> None:
    tenant = shop.guard.within("acme")
    await tenant.get_or_compute("report", shop_report, ttl=300)
    colons = StampedeGuard.from_url(operator.url, namespace=f"eu:{operator.namespace}")
    async with colons:
        await colons.locked_cache(ttl=300, name="colons.report")(shop_report)()
        told = await operator.call("keys", "-n", "nobody")
    assert "No entries in namespace 'nobody'" in told.out
    listed = re.search(r"Namespaces with entries: (.*)\.", told.out)
    assert listed is not None
    spaces = set(listed[1].split(", "))
    assert {operator.namespace, f"{operator.namespace}:acme", f"eu:{operator.namespace}"} <= spaces
    told = await operator.call("invalidate", "--function", "quality", "-n", "nobody", "--yes")
    assert told.code == 2 and operator.namespace in told.err


async def shop_report() -> int:
    return 7
