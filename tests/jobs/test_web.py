"""The page of jobs: closed unless opened, read only, and the same whoever mounts it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI

from stampede_guard.errors import Misuse, StoreUnavailable
from stampede_guard.jobs import Jobs, Run
from stampede_guard.leases import MemoryLeases


@pytest.fixture
async def jobs() -> AsyncIterator[Jobs]:
    async with MemoryLeases(namespace="shop") as leases:
        jobs = Jobs(leases)

        @jobs.cron("0 3 * * *")
        async def nightly(run: Run) -> None:
            run.report(files=12)

        @jobs.every(300, name="sync all")
        async def sync() -> None:
            raise PermissionError("401")

        await jobs.run_now("nightly")
        await jobs.run_now("sync all")
        yield jobs


def client_of(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


def mounted(jobs: Jobs, **options: Any) -> httpx.AsyncClient:
    app = FastAPI()
    app.mount("/ops/jobs", jobs.app(**options))
    return client_of(app)


async def test_without_a_guard_of_the_users_everybody_is_refused(jobs: Jobs) -> None:
    async with mounted(jobs) as client:
        for path in ("/ops/jobs/", "/ops/jobs/nightly", "/ops/jobs/health"):
            answer = await client.get(path)
            assert answer.status_code == 403
            assert answer.json() == {"error": "not allowed"}


async def test_the_users_guard_decides_and_only_true_is_yes(jobs: Jobs) -> None:
    async def by_header(scope: Any) -> bool:
        return (b"x-key", b"secret") in scope["headers"]

    async with mounted(jobs, allow=by_header) as client:
        assert (await client.get("/ops/jobs/")).status_code == 403
        assert (await client.get("/ops/jobs/", headers={"x-key": "secret"})).status_code == 200
    async with mounted(jobs, allow=lambda _: "perhaps") as client:
        assert (await client.get("/ops/jobs/")).status_code == 403
    with pytest.raises(Misuse, match="takes the ASGI scope"):
        jobs.app(allow="everybody")  # type: ignore[arg-type]


async def test_an_overview_shows_what_succeeded_and_what_failed(jobs: Jobs) -> None:
    async with mounted(jobs, allow=lambda _: True) as client:
        answer = await client.get("/ops/jobs/")
    assert answer.headers["cache-control"] == "no-store"
    nightly, sync = answer.json()["jobs"]
    assert (nightly["name"], nightly["schedule"], nightly["last_error"]) == ("nightly", "0 3 * * * UTC", None)
    assert nightly["last_success"] is not None
    assert (sync["name"], sync["last_success"], sync["last_error"]) == (
        "sync all",
        None,
        "PermissionError: 401",
    )
    assert answer.json()["overdue"] == []


async def test_a_job_has_a_page_of_its_own(jobs: Jobs) -> None:
    async with mounted(jobs, allow=lambda _: True) as client:
        nightly = (await client.get("/ops/jobs/nightly")).json()
        sync = (await client.get("/ops/jobs/sync%20all?outcome=failed&limit=5")).json()
        none = (await client.get("/ops/jobs/sync%20all?outcome=completed")).json()
    (run,) = nightly["runs"]
    assert (run["outcome"], run["counters"], run["attempt"]) == ("completed", {"files": 12}, 1)
    assert nightly["statistics"]["success_rate"] == 1.0
    assert [run["error"] for run in sync["runs"]] == ["PermissionError: 401"]
    assert none["runs"] == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nobody", 404),
        ("/nightly?limit=x", 400),
        ("/nightly?before=-1", 400),
        ("/nightly?outcome=late", 400),
        ("/nightly?limit=" + "9" * 2_000, 400),
        ("/nightly?limit=0", 200),
        ("/%00", 404),
        ("/" + "x" * 300, 404),
    ],
)
async def test_what_is_asked_wrongly_is_told(jobs: Jobs, path: str, status: int) -> None:
    async with client_of(jobs.app(allow=lambda _: True)) as client:
        answer = await client.get(path)
    assert answer.status_code == status
    assert ("error" in answer.json()) == (status != 200)


async def test_nothing_can_be_changed(jobs: Jobs) -> None:
    async with client_of(jobs.app(allow=lambda _: True)) as client:
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            answer = await client.request(method, "/nightly")
            assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
        head = await client.head("/nightly")
        assert (head.status_code, head.content) == (200, b"")


async def test_a_probe_is_told_of_what_is_overdue(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = jobs.runs()
    async with client_of(jobs.app(allow=lambda _: True)) as client:
        assert (await client.get("/health")).status_code == 200
        monkeypatch.setattr(backend, "_clock", lambda: 9e9)
        answer = await client.get("/health")
    assert answer.status_code == 503
    assert answer.json() == {"overdue": ["nightly", "sync all"]}


async def test_with_the_back_end_away_the_page_says_so_without_details(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("redis://user:secret@host")

    monkeypatch.setattr(jobs.runs(), "views", away)
    async with client_of(jobs.app(allow=lambda _: True)) as client:
        answer = await client.get("/")
    assert (answer.status_code, answer.json()) == (503, {"error": "the back end is away"})


async def recorded(jobs: Jobs, count: int) -> list[int]:
    """So many slots of `nightly` that nobody was there for, the newest first."""
    view = await jobs.view("nightly")
    assert view is not None
    slots = [int(view.at * 1000) - 60_000 * number for number in range(1, count + 1)]
    runs = jobs.runs()
    assert await runs.record(view.job, slots=slots, outcome="missed", error="nobody", timeout=5) == count
    return slots


async def test_runs_come_in_pages_of_500_at_most(jobs: Jobs) -> None:
    slots = await recorded(jobs, 600)
    async with client_of(jobs.app(allow=lambda _: True)) as client:
        first = (await client.get("/nightly?outcome=missed&limit=9999")).json()["runs"]
        then = (await client.get(f"/nightly?outcome=missed&limit=500&before={first[-1]['before']}")).json()
        few = (await client.get("/nightly?limit=3")).json()["runs"]
        usual = (await client.get("/nightly")).json()["runs"]
        too_long = await client.get("/nightly?before=" + "9" * 16)
    assert [run["before"] for run in first] == slots[:500]
    assert [run["before"] for run in then["runs"]] == slots[500:]
    assert (len(few), len(usual), too_long.status_code) == (3, 100, 400)


async def test_a_slot_that_nobody_ran_has_neither_times_nor_worker(jobs: Jobs) -> None:
    await recorded(jobs, 1)
    async with client_of(jobs.app(allow=lambda _: True)) as client:
        (run,) = (await client.get("/nightly?outcome=missed")).json()["runs"]
        (ran,) = (await client.get("/nightly?outcome=completed")).json()["runs"]
    assert (run["started"], run["seconds"], run["owner"], run["token"], run["error"]) == (
        None,
        None,
        None,
        None,
        "nobody",
    )
    assert run["finished"] is not None
    assert (ran["error"], ran["token"] > 0, 0 <= ran["seconds"] < 60, bool(ran["owner"])) == (
        None,
        True,
        True,
        True,
    )


async def test_what_runs_now_is_shown(jobs: Jobs) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    @jobs.every(300)
    async def slow() -> None:
        begun.set()
        await may_end.wait()

    pressed = asyncio.create_task(jobs.run_now("slow"))
    await begun.wait()
    async with client_of(jobs.app(allow=lambda _: True)) as client:
        found = (await client.get("/slow")).json()
        may_end.set()
        await pressed
        after = (await client.get("/slow")).json()
    assert found["running"] == [found["runs"][0]["slot"]]
    assert (found["runs"][0]["outcome"], after["running"]) == ("running", [])
    assert found["last_slot"] is None and found["last_success"] is None and after["last_success"] is not None


async def test_what_is_overdue_is_on_the_overview_which_is_no_probe(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs.runs(), "_clock", lambda: 9e9)
    async with client_of(jobs.app(allow=lambda _: True)) as client:
        answer = await client.get("/")
    assert (answer.status_code, answer.json()["overdue"]) == (200, ["nightly", "sync all"])
    assert [job["overdue"] for job in answer.json()["jobs"]] == [True, True]


async def test_the_answer_to_a_head_has_no_body_of_its_own(jobs: Jobs) -> None:
    said: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        said.append(message)

    for method in ("GET", "HEAD"):
        scope = {"type": "http", "method": method, "path": "/", "headers": []}
        await jobs.app(allow=lambda _: True)(scope, receive, send)
    got, body, head, nothing = said
    assert dict(got["headers"])[b"content-length"] == str(len(body["body"])).encode()
    assert (head["status"], b"content-length" in dict(head["headers"]), nothing["body"]) == (200, True, b"")


async def test_it_may_be_served_by_itself(jobs: Jobs) -> None:
    said: list[str] = []
    messages = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> dict[str, Any]:
        return {"type": next(messages)}

    async def send(message: Any) -> None:
        said.append(message["type"])

    app = jobs.app()
    await app({"type": "lifespan"}, receive, send)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    with pytest.raises(Misuse, match="serves HTTP, not websocket"):
        await app({"type": "websocket"}, receive, send)


@pytest.mark.parametrize("name", ["50%41", "a%2Fb", "regions/eu", "ü 😀", "[/b]", "what?#", "a:b+c"])
async def test_a_job_is_found_by_whatever_name_it_has(name: str) -> None:
    async with MemoryLeases(namespace="shop") as leases:
        jobs = Jobs(leases)
        jobs.every(300, name=name)(_nothing)
        await jobs.run_now(name)
        async with mounted(jobs, allow=lambda _: True) as client:
            answer = await client.get(f"/ops/jobs/{quote(name, safe='')}")
            assert (answer.status_code, answer.json()["name"]) == (200, name)


async def _nothing() -> None: ...
