"""The record of an action in the fleet's stream: who, from where, what, and the outcome, without names of entries."""

from __future__ import annotations

from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.errors import StoreUnavailable
from stampede_guard.ops.console.acting import act
from stampede_guard.ops.console.screen import Action, Asked
from stampede_guard.ops.console.screens import SCREENS
from stampede_guard.ops.fleet.masking import NAMELESS
from tests.ops.console.conftest import Browser, a_browser

NAME = "ada@example.org"


async def recorded(browser: Browser) -> dict[str, Any]:
    (one,) = [
        one for one in (await browser.see("/api/overview")).json()["happened"] if one["kind"] == "operator"
    ]
    detail: dict[str, Any] = one["detail"]
    return detail


@pytest.mark.parametrize("shows_names", [False, True])
async def test_a_switch_is_recorded_with_its_mode_and_where_it_came_from(
    guard: StampedeGuard, shows_names: bool
) -> None:
    """Also for those who may not see names of entries, because it names none."""
    async with a_browser(guard, actions=("mode",), shows_names=shows_names) as browser:
        token = await browser.token()
        await browser.submit("mode", token=token, function="shop.quality", to="bypass")
        told = await recorded(browser)
        assert told["user"] == "ada" and told["client"] == "127.0.0.1"
        assert told["said"].startswith("shop.quality is in mode bypass")
        (mark,) = (await browser.see("/api/function", name="shop.quality")).json()["marks"]
        assert mark[1].startswith("ada: shop.quality is in mode bypass")


@pytest.mark.parametrize("name", ["mode", "invalidate"])
@pytest.mark.parametrize("shows_names", [False, True])
async def test_a_failure_is_recorded_as_one(guard: StampedeGuard, name: str, shows_names: bool) -> None:
    async def do(fleet: Any, asked: Asked) -> str:
        raise StoreUnavailable(NAME)

    async with a_browser(guard, shows_names=shows_names) as browser:
        with pytest.raises(StoreUnavailable):
            await act(browser.fleet, Action(name, "It fails.", do), {}, user="ada", client="10.0.0.1")
        told = await recorded(browser)
    assert (told["what"], told["said"], told["client"]) == (name, "failed: StoreUnavailable", "10.0.0.1")


async def test_names_of_entries_are_recorded_and_read_only_where_both_sides_may(guard: StampedeGuard) -> None:
    async def do(fleet: Any, asked: Asked) -> str:
        return f"{NAME} is invalidated"

    action = Action("invalidate", "It names an entry.", do)
    async with (
        a_browser(guard, shows_names=True) as named,
        a_browser(guard) as hiding,
    ):
        await act(named.fleet, action, {}, user="ada", client="10.0.0.1")
        assert (await recorded(named))["said"] == f"{NAME} is invalidated"
        assert (await recorded(hiding))["said"] == "invalidate"


async def test_a_console_that_hides_names_publishes_none(guard: StampedeGuard) -> None:
    async def do(fleet: Any, asked: Asked) -> str:
        return f"{NAME} is invalidated"

    async with a_browser(guard, shows_names=True) as named, a_browser(guard) as hiding:
        await act(
            hiding.fleet, Action("invalidate", "It names an entry.", do), {}, user="ada", client="10.0.0.1"
        )
        assert (await recorded(named))["said"] == "invalidate"


def test_each_action_of_the_console_names_entries_or_is_known_not_to() -> None:
    actions = {one.name for screen in SCREENS for one in screen.actions}
    assert actions - NAMELESS == {"invalidate", "invalidate_tag", "invalidate_function"}
    assert actions >= NAMELESS
