"""The public conformance suite through real servers, with real pauses."""

from __future__ import annotations

import pytest

from tests.http.suite.cases import load
from tests.http.suite.play import summary
from tests.http.suite.sockets import Server, play_all, serving
from tests.http.suite.test_in_process import OUT_OF_REACH, failed, told


@pytest.mark.parametrize("server", ["uvicorn", "granian"])
async def test_every_required_and_optimal_case_passes_over_a_socket(server: Server) -> None:
    cases = load()
    async with serving(server) as port:
        results = await play_all(cases.all, port, run=server)
    told(cases, results)
    assert failed(results, "required") <= OUT_OF_REACH, summary(results)
    assert len(failed(results, "optimal") - OUT_OF_REACH) <= (6 if cases.public else 0), summary(results)
