"""`stampede-guard mode` reaches processes that run."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Operator, Shop
from tests.support.gate import until


async def test_a_switch_reaches_a_running_process(operator: Operator, shop: Shop) -> None:
    await until(lambda: shop.guard.runtime()._switches._task is not None)
    told = await operator.call("mode", "shop.quality", "off")
    assert told.code == 0
    assert "shop.quality is in mode off" in told.out
    await until(lambda: shop.guard._modes.fleet)
    await shop.quality(7)
    assert shop.runs == [7, 8, 7]
    assert (await operator.call("mode")).out == "shop.quality  off  until it is changed\n"
    told = await operator.call("mode", "shop.quality", "default")
    assert "has its own mode again" in told.out
    await until(lambda: not shop.guard._modes.fleet)
    await shop.quality(7)
    assert shop.runs == [7, 8, 7]
    assert "No switches" in (await operator.call("mode")).out


def test_the_kill_switch_as_a_process_of_its_own(operator: Operator) -> None:
    assert operator.run("mode", "*", "bypass", "--for", "30m").code == 0
    told = operator.run("mode", "--json").json
    assert told["*"]["mode"] == "bypass"
    assert 1700 < told["*"]["left"] <= 1800
    assert operator.run("mode", "*", "default").code == 0
    assert operator.run("mode", "--json").json == {}


async def test_a_gradual_start_is_switched_with_a_sample(operator: Operator) -> None:
    await operator.call("mode", "shop.quality", "on", "--sample", "0.1")
    assert (await operator.call("mode", "--json")).json == {
        "shop.quality": {"mode": "on", "sample": 0.1, "left": None}
    }
    await operator.call("mode", "shop.quality", "default")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["shop.quality"], "write the mode behind"),
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
