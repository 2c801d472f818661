"""The pages of leases and jobs, and what may be done there, with leases that several processes share."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.jobs import Jobs, Run
from stampede_guard.jobs.history.records import JobRecords
from stampede_guard.jobs.messages import Claim, Ending, JobView, Outcome
from stampede_guard.leases import MemoryLeases, PostgresLeases, RedisLeases
from stampede_guard.leases.memory import LeaseRows
from stampede_guard.leases.messages import Owner
from stampede_guard.ops.console.app import ConsoleApp
from stampede_guard.ops.console.screens import overview
from tests.ops.console.conftest import Browser, by_name, mounted

ACTIONS = ("run_job", "pause_job", "resume_job", "release_lease")
EVIL = "<script>alert(1)</script>"


@pytest.fixture
async def jobs() -> AsyncIterator[Jobs]:
    async with MemoryLeases(namespace="shop") as leases:
        made = Jobs(leases)

        @made.every(60)
        async def report(run: Run) -> None:
            run.report(files=3)

        @made.cron("0 3 * * *", name=EVIL)
        async def evil() -> None:
            raise ValueError(f"{EVIL} refused 10.0.0.1")

        yield made
        await made.stop()


@pytest.fixture
async def pages(guard: StampedeGuard, jobs: Jobs) -> AsyncIterator[Browser]:
    console = guard.console(allow=by_name, actions=ACTIONS, jobs=jobs)
    assert isinstance(console, ConsoleApp)
    with mounted(console) as found:
        async with found:
            yield found
    await console.fleet.aclose()


async def seen(jobs: Jobs, name: str) -> JobView:
    view = await jobs.view(name)
    assert view is not None
    return view


async def test_jobs_are_listed_with_what_runs_next_and_what_ran_last(pages: Browser, jobs: Jobs) -> None:
    await jobs.run_now("report")
    await jobs.run_now(EVIL)
    found = (await pages.see("/api/jobs")).json()
    by_job = {job["name"]: job for job in found["jobs"]}
    assert (found["all"], found["overdue"]) == (2, 0)
    assert by_job["report"]["last"] == ["completed"]
    assert by_job["report"]["next_slot"] % 60 == 0 and by_job["report"]["here"]
    page = await pages.see("/jobs")
    assert page.status_code == 200
    assert EVIL not in page.text and "&lt;script&gt;" in page.text
    told = (await pages.see("/api/overview")).json()
    assert told["troubles"] == [f"jobs failed in the last 5 minutes: {EVIL}"]
    assert [job["name"] for job in (await pages.see("/api/jobs", search="REP")).json()["jobs"]] == ["report"]


async def test_a_job_is_paused_and_resumed_in_the_fleet(pages: Browser, jobs: Jobs) -> None:
    await jobs.run_now("report")
    said = await pages.submit("pause_job", page="/jobs", name="report")
    assert (said.status_code, "report is paused by ada" in said.text) == (200, True)
    assert (await seen(jobs, "report")).paused_by == "ada"
    assert "paused by ada" in (await pages.see("/jobs", state="paused")).text
    assert "paused by ada" in (await pages.see("/job", name="report")).text
    said = await pages.submit("run_job", page="/jobs", name="report")
    assert "report ran: completed; it is paused by ada, and stays so" in said.text
    said = await pages.submit("resume_job", page="/jobs", name="report")
    assert "report is resumed. It was paused by ada." in said.text
    assert not (await seen(jobs, "report")).paused_at
    said = await pages.submit("resume_job", page="/jobs", name="report")
    assert "report was not paused" in said.text
    said = await pages.submit("pause_job", page="/jobs", name="nobody")
    assert said.status_code == 400


async def test_a_long_run_by_hand_is_not_waited_for(
    pages: Browser, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stampede_guard.ops.console.screens.jobs.PATIENCE", 0.0)
    ends = asyncio.Event()

    @jobs.every(60)
    async def slow() -> None:
        await ends.wait()

    await jobs.run_now("report")
    said = await pages.submit("run_job", page="/jobs", name="slow")
    assert "a run of slow was begun in this process" in said.text
    ends.set()


async def test_only_a_job_of_this_process_is_run_by_hand(pages: Browser, jobs: Jobs) -> None:
    await jobs.run_now("report")
    await jobs.remove("report")
    said = await pages.submit("run_job", page="/jobs", name="report")
    assert said.status_code == 400 and "does not have the job" in said.text
    assert "Run now" not in (await pages.see("/job", name="report")).text


async def keep(jobs: Jobs, name: str, number: int, outcome: Outcome, error: str = "") -> None:
    """A run of the past, which took no time."""
    view = await seen(jobs, name)
    slot, runs = (int(view.at) - 60 * number) * 1000, jobs.runs()
    worker = Owner(process="p", pod="web-1", pid=7)
    await runs.claim(
        Claim(job=view.job, slot=slot, run=f"{number}", owner=worker, fingerprint=view.fingerprint, alive_for=60.0),
        timeout=5,
    )  # fmt: skip
    ending = Ending(outcome=outcome, error=error, token=number)
    await runs.finish(view.job, slot=slot, run=f"{number}", ending=ending, timeout=5)


async def test_one_job_shows_its_failures_durations_and_a_time_limit(pages: Browser, jobs: Jobs) -> None:
    await jobs.run_now("report")
    for number in range(1, 56):
        failed = number % 5 == 0
        error = f"IOError: 10.0.0.{number} {EVIL}" if failed else ""
        await keep(jobs, "report", number, "failed" if failed else "completed", error)
    found = (await pages.see("/api/job", name="report")).json()
    assert [(one["count"], one["pattern"]) for one in found["statistics"]["failures"]] == [
        (11, f"IOError: # {EVIL.replace('1', '#')}")
    ]
    assert found["statistics"]["suggested_time_limit"] == 1.0
    assert (len(found["runs"]), len(found["durations"])) == (50, 56)
    older = (await pages.see("/api/job", name="report", before=str(found["older"]))).json()
    assert (len(older["runs"]), older["older"]) == (6, None)
    failures = (await pages.see("/api/job", name="report", outcome="failed")).json()["runs"]
    assert {run["outcome"] for run in failures} == {"failed"} and len(failures) == 11
    page = (await pages.see("/job", name="report")).text
    assert EVIL not in page and page.count("<rect") == 56


async def test_an_unknown_job_or_lease_is_a_sentence(pages: Browser) -> None:
    for path in ("/job", "/leases"):
        answer = await pages.see(path, name="nobody")
        assert answer.status_code == 404, path
        assert "nobody" in answer.text
    answer = await pages.see("/job")
    assert (answer.status_code, "name= is missing" in answer.text) == (400, True)


async def test_a_console_without_leases_says_what_to_write(browser: Browser) -> None:
    for path in ("/jobs", "/leases"):
        answer = await browser.see(path)
        assert (answer.status_code, "guard.console(leases=...)" in answer.text) == (404, True)


@pytest.mark.parametrize("kind", ["postgres", "redis"])
async def test_the_pages_have_the_same_data_from_servers(
    kind: str, guard: StampedeGuard, namespace: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(f"{kind.replace('redis', 'valkey')}_url")
    leases: PostgresLeases | RedisLeases
    if kind == "postgres":
        leases = PostgresLeases.from_url(url, namespace=namespace)
        await leases.create_schema()
    else:
        leases = RedisLeases.from_url(url, namespace=namespace, restart="trust")
    async with leases:
        jobs = Jobs(leases)

        @jobs.every(60)
        async def report() -> None:
            raise ValueError("401")

        await jobs.run_now("report")
        await jobs.pause("report", by="Ada")
        console = guard.console(allow=by_name, jobs=jobs)
        assert isinstance(console, ConsoleApp)
        with mounted(console) as pages:
            async with pages:
                (job,) = (await pages.see("/api/jobs")).json()["jobs"]
                assert (job["last"], job["paused_by"], job["overdue_by"]) == (["failed"], "Ada", 0.0)
                found = (await pages.see("/api/job", name="report")).json()
                assert found["statistics"]["failures"][0]["pattern"] == "ValueError: 401"
                one = (await pages.see("/api/leases", name="report")).json()["one"]
                assert (one["held"], one["is_job"], one["history"][0]["what"]) == (False, True, "ran")
                for path in ("/jobs", "/job?name=report", "/leases", "/leases?name=report"):
                    assert (await pages.see(path)).status_code == 200
        await console.fleet.aclose()
        await jobs.stop()


async def test_overview_tells_each_lost_lease_and_does_not_wait_for_jobs(
    pages: Browser, guard: StampedeGuard, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(records: JobRecords) -> list[JobView]:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(JobRecords, "views", never)
    monkeypatch.setattr(overview, "JOBS_SECONDS", 0.0)
    session = guard.engine.runtime().session
    words = {"kind": "lease lost", "process": "p", "function": "leader", "key": "shop:leader"}
    await session.tell(guard.namespace, [(5, json.dumps(words))])
    troubles = (await pages.see("/api/overview")).json()["troubles"]
    assert troubles == [
        "leases were lost in the last 5 minutes: leader",
        "the back end of the jobs does not answer",
    ]


# --- leases


@pytest.fixture
async def two(guard: StampedeGuard) -> AsyncIterator[tuple[Browser, MemoryLeases, MemoryLeases]]:
    """A console, and two processes with leases: the first is the console's own."""
    rows = LeaseRows()
    async with (
        MemoryLeases(rows=rows, namespace="shop") as mine,
        MemoryLeases(rows=rows, namespace="shop", owner=Owner(process="p", pod="web-2", pid=9)) as other,
    ):
        console = guard.console(allow=by_name, actions=ACTIONS, leases=mine)
        assert isinstance(console, ConsoleApp)
        with mounted(console) as found:
            async with found:
                yield found, mine, other
        await console.fleet.aclose()


Two = tuple[Browser, MemoryLeases, MemoryLeases]


async def held(leases: MemoryLeases, name: str, holding: asyncio.Event, **options: Any) -> None:
    async with leases.hold(name, **options):
        holding.set()
        await asyncio.Event().wait()


async def test_a_lease_shows_its_holder_deadline_and_queue(two: Two) -> None:
    pages, mine, other = two
    holding, second = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        holder = group.create_task(held(other, EVIL, holding))
        await holding.wait()
        waiter = group.create_task(held(mine, EVIL, second, wait=float("inf")))
        async with asyncio.timeout(60):
            while not (await pages.see("/api/leases", name=EVIL)).json()["one"]["queue"]:  # noqa: ASYNC110
                await asyncio.sleep(0)
        (row,) = (await pages.see("/api/leases", state="held")).json()["leases"]
        assert (row["owner"], row["waiting"], row["token"] > 0, row["ends_in"] > 0) == (
            "web-2/9",
            1,
            True,
            True,
        )
        page = await pages.see("/leases", name=EVIL)
        assert EVIL not in page.text and str(row["token"]) in page.text
        assert [
            moment["what"] for moment in (await pages.see("/api/leases", name=EVIL)).json()["one"]["history"]
        ] == ["won"]
        holder.cancel()
        waiter.cancel()


async def test_a_release_with_a_token_that_has_changed_does_nothing(two: Two) -> None:
    pages, _, other = two
    async with other.hold("sync") as lease:
        said = await pages.submit(
            "release_lease", page="/leases?name=sync", name="sync", seen=str(lease.token - 1), at_once="yes"
        )
        assert said.status_code == 400
        assert f"it is held under token {lease.token} now; you saw token {lease.token - 1}" in said.text
        view = await other.show("sync")
        assert view is not None and view.held and not view.asked_to_leave
        for wrong in ("", "x", "-1", "1" * 20):
            answer = await pages.submit("release_lease", page="/leases?name=sync", name="sync", seen=wrong)
            assert answer.status_code == 400


async def test_the_forms_of_a_lease_are_not_renewed_while_the_page_is_open(two: Two) -> None:
    """Otherwise a click would meet whoever got the lease in the last second."""
    pages, _, other = two
    async with other.hold("sync"):
        page = (await pages.see("/leases", name="sync")).text
    live = re.findall(r"<section[^>]* data-live>.*?</section>", page, re.DOTALL)
    assert "Take away now" in page and len(live) == 2
    assert not any("<form" in part for part in live)


async def test_a_holder_is_asked_to_release_and_who_asked_is_kept(two: Two) -> None:
    pages, _, other = two
    async with other.hold("sync") as lease:
        said = await pages.submit(
            "release_lease", page="/leases?name=sync", name="sync", seen=str(lease.token)
        )
        assert (said.status_code, "was asked to stop" in said.text) == (200, True)
    (audit,) = await other.audits()
    assert (audit.by, audit.token, audit.now) == ("ada", lease.token, False)
    whats = [
        moment["what"] for moment in (await pages.see("/api/leases", name="sync")).json()["one"]["history"]
    ]
    assert "asked to release" in whats


async def test_a_lease_is_taken_away(two: Two) -> None:
    pages, mine, other = two
    holding = asyncio.Event()
    holder = asyncio.create_task(held(other, "sync", holding))
    await holding.wait()
    view = await mine.show("sync")
    assert view is not None
    said = await pages.submit(
        "release_lease", page="/leases?name=sync", name="sync", seen=str(view.token), at_once="yes"
    )
    assert "sync is free" in said.text
    async with mine.hold("sync") as lease:
        assert lease.token > view.token
    holder.cancel()
    await asyncio.wait({holder})


async def test_without_the_right_there_is_no_button_and_no_action(guard: StampedeGuard, jobs: Jobs) -> None:
    await jobs.run_now("report")
    console = guard.console(allow=by_name, actions=("resume_job",), jobs=jobs)
    with mounted(console) as pages:
        async with pages:
            page = (await pages.see("/job", name="report")).text
            assert "Pause" not in page and "Run now" not in page
            assert (await pages.submit("pause_job", name="report", token="x")).status_code == 403
            assert (await pages.submit("resume_job", name="report", token="x")).status_code == 403
            assert not (await seen(jobs, "report")).paused_at
    await console.fleet.aclose()  # type: ignore[attr-defined]


async def test_the_history_of_a_job_is_live_before_its_first_such_run(pages: Browser, jobs: Jobs) -> None:
    await jobs.run_now("report")
    page = (await pages.see("/job", name="report", outcome="failed")).text
    assert "No such runs." in page and 'id="runs" data-live' in page
