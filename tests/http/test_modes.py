"""In which modes of the guard what is done."""

from __future__ import annotations

import pytest

from stampede_guard.policy import Mode
from tests.http.fleet import App, Fleet, status_of


@pytest.mark.parametrize("mode", ["bypass", "shadow", "off"])
async def test_a_change_invalidates_in_every_mode(mode: Mode) -> None:
    """1. The mode is changed for a while. 2. Data changes. 3. The mode is `on` again, and so is what was stored."""
    app = App()
    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.guards[0].mode = mode
        assert (await fleet.get(method="PUT")).body == b"answer 2"
        fleet.guards[0].mode = "on"
        answer = await fleet.get()
        assert answer.body == b"answer 3"
        assert "hit" not in status_of(answer)
