"""The public conformance suite through real servers, with real pauses."""

from __future__ import annotations

import pytest

from tests.http.suite.cases import OPTIONS, load
from tests.http.suite.server import WITH
from tests.http.suite.sockets import Server, play_all, serving
from tests.http.suite.test_in_process import check, told


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("server", ["uvicorn", "granian"])
async def test_every_required_and_optimal_case_passes_over_a_socket(server: Server, options: str) -> None:
    cases = load()
    async with serving(server, **{WITH: options}) as port:
        # An invalidation of any group makes responses on their way useless, so these take turns.
        grouped = {name: case for name, case in cases.all.items() if name.startswith("group-")}
        others = {name: case for name, case in cases.all.items() if name not in grouped}
        results = await play_all(others, port, run=server)
        results += await play_all(grouped, port, run=server, at_once=1)
    told(cases, results, options)
    check(cases, results, options)
