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
        results = await play_all(cases.all, port, run=server)
    told(cases, results, options)
    check(cases, results, options)
