"""The public conformance suite against the middleware in this process, or this project's own few cases without it."""

from __future__ import annotations

import pytest

from tests.http.suite.cases import BESIDE, OPTIONS, OWN, ROOT, Cases, load, read
from tests.http.suite.inprocess import play_all
from tests.http.suite.play import Result, summary

OUT_OF_REACH = {"interim-not-cached", "interim-102", "interim-103"}
"""ASGI has no interim responses."""


def failed(results: list[Result], kind: str) -> set[str]:
    return {result.id for result in results if result.kind == kind and not result.passed}


def told(cases: Cases, results: list[Result], options: str) -> None:
    print(f"\n{options}: cases of {cases.path.name} ({len(results)})\n{summary(results)}")
    if not cases.public:
        print(
            f"The public suite is not at {BESIDE}: these were the project's own cases. $HTTP_CACHE_TESTS names it."
        )


def test_the_public_cases_are_there_where_their_directory_is() -> None:
    if (ROOT.parent / "shared").is_dir():
        assert BESIDE.is_file()


ALL_THEY_ALLOW = "all the RFCs allow"
KEPT_OUT = {
    "heuristic",
    "headers-store-Set-Cookie",
    "heuristic-200-cached",
    "heuristic-204-cached",
    "heuristic-410-cached",
    "heuristic-501-cached",
    "status-400-fresh",
    "status-499-fresh",
}
"""What the defaults do not store: a cookie, a guess, an error that is about one request."""


@pytest.mark.parametrize("options", OPTIONS)
async def test_every_required_and_optimal_case_passes_but_those_that_asgi_cannot_ask(options: str) -> None:
    cases = load()
    results = await play_all(cases.all, own=cases.path == OWN, **OPTIONS[options])
    told(cases, results, options)
    check(cases, results, options)


def check(cases: Cases, results: list[Result], options: str) -> None:
    required, optimal = (failed(results, kind) - OUT_OF_REACH for kind in ("required", "optimal"))
    if options != ALL_THEY_ALLOW:
        required, optimal = required - KEPT_OUT, optimal - KEPT_OUT
    assert not required, summary(results)
    # Other files of the suite have a few that read the RFCs in a way of their own.
    assert len(optimal) <= (6 if cases.public and cases.path != BESIDE else 0), summary(results)


async def test_the_projects_own_cases_all_pass() -> None:
    results = await play_all(read(OWN), own=True, **OPTIONS[ALL_THEY_ALLOW])
    assert [result for result in results if not result.passed] == []
