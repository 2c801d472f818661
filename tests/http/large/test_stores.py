"""Large bodies on a cluster, compressed, and with copies of responses in each process."""

from __future__ import annotations

import pytest

from bench.herd.cluster import ValkeyCluster
from stampede_guard import Policy
from tests.http.fleet import Fleet, status_of
from tests.http.large.bodies import LargeApp, clients
from tests.http.large.content import LARGE, OPTIONS, is_whole, whole
from tests.http.large.test_large import _forget

POLICIES = {
    "plain": Policy(),
    "compressed": Policy(compression="zstd"),
    "near": Policy(l1_ttl=30.0),
    "both": Policy(compression="zstd", l1_ttl=30.0),
}


async def _keeps_its_promises(fleet: Fleet, app: LargeApp) -> None:
    readers = clients(fleet, 4)
    for reader in readers:
        await reader.task
        assert is_whole(reader.body)
    for process in (0, 1):
        hit = await fleet.get(process=process)
        assert is_whole(hit.body) and "; hit" in status_of(hit)
        part = await fleet.get(process=process, range="bytes=262100-262199")
        assert (part.status, part.body) == (206, whole()[262_100:262_200])
        head = await fleet.get(process=process, method="HEAD")
        assert (head.get("content-length"), head.body) == (str(LARGE), b"")
    assert app.calls == 1
    await fleet.middlewares[0].purge(url="http://example.test/")
    assert is_whole((await fleet.get()).body, 2)


@pytest.mark.parametrize("name", POLICIES)
async def test_a_cluster_has_one_call_for_all_and_an_invalidation_is_seen(
    name: str, valkey_cluster: ValkeyCluster, namespace: str
) -> None:
    app, url = LargeApp(), valkey_cluster.url
    async with Fleet(
        app, processes=2, on=url, namespace=namespace, policy=POLICIES[name], **OPTIONS
    ) as fleet:
        await _keeps_its_promises(fleet, app)


@pytest.mark.parametrize("name", POLICIES)
async def test_without_its_first_piece_a_copy_in_the_process_is_replaced(name: str) -> None:
    app = LargeApp()
    async with Fleet(app, processes=2, policy=POLICIES[name], **OPTIONS) as fleet:
        for process in (0, 1, 0, 1):
            assert is_whole((await fleet.get(process=process)).body)
        await _forget(fleet, 0)
        assert is_whole((await fleet.get(process=1)).body, 2)
        assert is_whole((await fleet.get(process=1)).body, 2) and app.calls == 2
