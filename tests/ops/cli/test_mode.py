"""`stampede-guard mode` reaches processes that run."""

from __future__ import annotations

import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard.api.urls import store_from_url
from stampede_guard.stores.console.console import Console
from tests.ops.cli.conftest import Operator, Shop
from tests.support.gate import until
from tests.support.guards import Guards
from tests.support.inside import switches_of, watch_of
from tests.support.sessions import LONG


async def test_a_switch_reaches_a_running_process(operator: Operator, shop: Shop) -> None:
    await until(lambda: watch_of(shop.guard.engine.runtime())._task is not None)
    told = await operator.call("mode", "shop.quality", "off")
    assert told.code == 0
    assert "shop.quality is in mode off" in told.out
    await until(lambda: switches_of(shop.guard))
    await shop.quality(7)
    assert shop.runs == [7, 8, 7]
    assert (await operator.call("mode")).out == "shop.quality  off  until it is changed\n"
    told = await operator.call("mode", "shop.quality", "default")
    assert "has its own mode again" in told.out
    await until(lambda: not switches_of(shop.guard))
    await shop.quality(7)
    assert shop.runs == [7, 8, 7]
    assert "No switches" in (await operator.call("mode")).out


def test_the_kill_switch_as_a_process_of_its_own(operator: Operator) -> None:
    assert operator.run("mode", "*", "bypass", "--for", "30m", "--force").code == 0
    told = operator.run("mode", "--json").json
    assert told["*"]["mode"] == "bypass"
    assert 1700 < told["*"]["left"] <= 1800
    assert operator.run("mode", "*", "default").code == 0
    assert operator.run("mode", "--json").json == {}


async def test_a_switch_is_a_mark_on_the_page_of_its_function(operator: Operator, namespace: str) -> None:
    await operator.call("mode", "shop.quality", "off", "--force")
    async with await Console.open(store_from_url(operator.url)) as console:
        (one,) = await console.happened(namespace)
    assert (one.kind, one.function) == ("operator", "shop.quality")
    assert (one.detail["what"], one.detail["user"]) == ("mode", "stampede-guard mode")
    assert one.detail["said"] == "shop.quality is in mode off"


async def test_a_gradual_start_is_switched_with_a_sample(operator: Operator) -> None:
    await operator.call("mode", "shop.quality", "on", "--sample", "0.1", "--force")
    assert (await operator.call("mode", "--json")).json == {
        "shop.quality": {"mode": "on", "sample": 0.1, "left": None}
    }
    await operator.call("mode", "shop.quality", "default")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["shop.quality"], "write the mode after"),
        (["shop.quality", "sometimes"], "sometimes"),
        (["shop.quality", "bypass", "--sample", "0.1"], "--sample goes with on and shadow"),
        (["shop.quality", "default", "--for", "1h"], "do not go with default"),
        (["shop.quality", "bypass", "--for", "soon"], "write 90s, 30m, 2h or 1d"),
        (["shop.quality", "on", "--sample", "2"], "less than or equal to 1"),
        (["f" * 201, "on"], "1 to 200 characters"),
    ],
)
async def test_what_makes_no_sense_is_refused_with_what_would(
    operator: Operator, args: list[str], said: str
) -> None:
    told = await operator.call("mode", *args)
    assert told.code == 2
    assert said in told.err


async def test_a_name_that_nobody_has_is_refused_with_those_that_are_known(
    operator: Operator, shop: Shop
) -> None:
    told = await operator.call("mode", "shop.qualty", "bypass")
    assert told.code == 2
    assert "no entry" in told.err and "the nearest are: shop.quality" in told.err and "--force" in told.err
    assert (await operator.call("mode", "--json")).json == {}
    assert "error" in (await operator.call("mode", "shop.qualty", "bypass", "--json")).json


async def test_it_is_switched_all_the_same_by_force_and_from_then_on_known(
    operator: Operator, shop: Shop
) -> None:
    assert (await operator.call("mode", "shop.new", "bypass", "--force")).code == 0
    told = await operator.call("mode", "shop.new", "shadow")
    assert (told.code, told.err) == (0, "")
    assert (await operator.call("mode", "shop.new", "default")).code == 0


@pytest.mark.parametrize("known", ["shop.quality", "*", "http"])
async def test_known_names_are_switched_without_a_word(operator: Operator, shop: Shop, known: str) -> None:
    told = await operator.call("mode", known, "bypass")
    assert (told.code, told.err) == (0, "")
    assert (await operator.call("mode", known, "default")).code == 0


async def test_long_and_local_names_and_those_of_keys_are_known(operator: Operator, shop: Shop) -> None:
    local, long = "module.outer.<locals>.inner", "module." + "x" * 90
    for name in (local, long):

        @shop.guard.locked_cache(name=name)
        async def function(project: int) -> int:
            return project

        await function(7)
    for name in (local, long, f"{operator.namespace}:report"):
        told = await operator.call("mode", name, "bypass")
        assert (told.code, told.err) == (0, "")
        assert (await operator.call("mode", name, "default")).code == 0


async def test_where_there_are_no_entries_it_is_a_warning(operator: Operator, server: ValkeyServer) -> None:
    async with Guards(server.url, operator.namespace, deadline=LONG) as guards:
        await (
            guards.guard().engine.runtime().session.switches(operator.namespace)
        )  # connected, and nothing stored
        told = await operator.call("mode", "shop.quality", "bypass")
    assert told.code == 0 and "there are no entries" in told.err
    await operator.call("mode", "shop.quality", "default")
