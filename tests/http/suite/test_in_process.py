"""The public conformance suite against the middleware in this process, or this project's own few cases without it."""

from __future__ import annotations

from tests.http.suite.cases import BESIDE, OWN, ROOT, Cases, load, read
from tests.http.suite.inprocess import play_all
from tests.http.suite.play import Result, summary

OUT_OF_REACH = {"interim-not-cached", "interim-102", "interim-103"}
"""ASGI has no interim responses."""


def failed(results: list[Result], kind: str) -> set[str]:
    return {result.id for result in results if result.kind == kind and not result.passed}


def told(cases: Cases, results: list[Result]) -> None:
    print(f"\ncases of {cases.path.name} ({len(results)})\n{summary(results)}")
    if not cases.public:
        print(
            f"The public suite is not at {BESIDE}: these were the project's own cases. $HTTP_CACHE_TESTS names it."
        )


def test_the_public_cases_are_there_where_their_directory_is() -> None:
    if (ROOT.parent / "shared").is_dir():
        assert BESIDE.is_file()


async def test_every_required_and_optimal_case_passes_but_those_that_asgi_cannot_ask() -> None:
    cases = load()
    results = await play_all(cases.all)
    told(cases, results)
    assert failed(results, "required") <= OUT_OF_REACH
    # Other files of the suite have a few that read the RFCs in a way of their own.
    assert len(failed(results, "optimal") - OUT_OF_REACH) <= (6 if cases.public else 0)


async def test_the_projects_own_cases_all_pass() -> None:
    results = await play_all(read(OWN))
    assert [result for result in results if not result.passed] == []
