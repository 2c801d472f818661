"""jobs: schedules, history, a run by hand, and the dead-man signal as an exit status."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard.jobs import Jobs, Run
from stampede_guard.jobs.messages import Registration
from stampede_guard.leases import RedisLeases
from tests.ops.cli.conftest import ROOT, Operator

PROGRAM = """
import os
from stampede_guard.jobs import Jobs
from stampede_guard.leases import RedisLeases

url, namespace = os.environ["STAMPEDE_GUARD_URL"], os.environ["STAMPEDE_GUARD_NAMESPACE"]
jobs = Jobs(RedisLeases.from_url(url, namespace=namespace, restart="trust"))

@jobs.cron("0 3 * * *")
async def nightly(run):
    run.report(files=12)

@jobs.every(300)
async def sync():
    raise PermissionError("401")
"""


@pytest.fixture
async def jobs(server: ValkeyServer, namespace: str) -> AsyncIterator[Jobs]:
    async with RedisLeases.from_url(server.url, namespace=namespace, restart="trust") as leases:
        jobs = Jobs(leases)

        @jobs.cron("0 3 * * *")
        async def nightly(run: Run) -> None:
            run.report(files=12)

        @jobs.every(300)
        async def sync() -> None:
            raise PermissionError("401")

        await jobs.run_now("nightly")
        await jobs.run_now("sync")
        yield jobs


async def test_jobs_and_their_history_are_shown(operator: Operator, jobs: Jobs) -> None:
    told = (await operator.call("jobs", "list")).out
    assert "0 3 * * * UTC" in told
    assert "never" in told
    assert {job["job"] for job in (await operator.call("jobs", "list", "--json")).json["jobs"]} == {
        jobs.leases.full("nightly"),
        jobs.leases.full("sync"),
    }
    told = (await operator.call("jobs", "history", "nightly")).out
    assert "completed" in told
    assert "files=12" in told
    assert "100.0% succeed; mean " in told
    assert "P95 " in told
    told = (await operator.call("jobs", "history", "sync", "--outcome", "failed", "--json")).json
    assert [run["error"] for run in told["runs"]] == ["PermissionError: 401"]
    assert told["statistics"]["success_rate"] == 0.0
    assert (await operator.call("jobs", "history", "sync", "--outcome", "late")).code == 2
    told = await operator.call("jobs", "history", "nobody")
    assert (told.code, "no worker ever registered a job 'nobody'" in told.err) == (2, True)
    told = await operator.call("jobs", "history", jobs.leases.full("sync"))
    assert (told.code, told.err.endswith("names are written without their namespace: sync\n")) == (2, True)


async def test_a_job_that_never_ran_has_no_figures(operator: Operator, jobs: Jobs) -> None:
    new = Registration(job=jobs.leases.full("new"), schedule="always", fingerprint="x", rhythm=60.0)
    await jobs.runs().register(new, timeout=5)
    told = await operator.call("jobs", "history", "new")
    assert (told.code, "no run has ended" in told.out) == (0, True)
    assert (await operator.call("jobs", "history", "new", "--json")).json["runs"] == []


def test_a_job_is_run_by_hand(operator: Operator, tmp_path: Path) -> None:
    (tmp_path / "program_of_jobs.py").write_text(PROGRAM)
    here = {"PYTHONPATH": str(tmp_path)}
    told = operator.run("jobs", "run", "program_of_jobs:jobs", "nightly", **here)
    assert (told.code, told.out) == (0, "nightly: completed\n")
    told = operator.run("jobs", "run", "program_of_jobs:jobs", "sync", **here)
    assert (told.code, told.out) == (1, "sync: failed: PermissionError: 401\n")
    told = operator.run("jobs", "run", "program_of_jobs:jobs", "other", **here)
    assert (told.code, "it has nightly, sync" in told.err) == (2, True)
    for wrong, why in (
        ("program_of_jobs", "module:name"),
        ("program_of_nobody:jobs", "cannot be found"),
        ("program_of_jobs:os", "is a module"),
    ):
        told = operator.run("jobs", "run", wrong, "sync", **here)
        assert (told.code, why in told.err) == (2, True)


async def test_a_job_is_paused_and_resumed(operator: Operator, jobs: Jobs, tmp_path: Path) -> None:
    told = await operator.call("jobs", "pause", "sync", "--by", "Ada [of ops]")
    assert (told.code, "sync: paused by Ada [of ops], " in told.out) == (0, True)
    assert "paused by Ada [of ops]" in (await operator.call("jobs", "list")).out
    (tmp_path / "program_of_jobs.py").write_text(PROGRAM)
    here = {"PYTHONPATH": str(tmp_path)}
    told = operator.run("jobs", "run", "program_of_jobs:jobs", "sync", **here)
    assert (told.code, told.out) == (1, "sync: failed: PermissionError: 401\n")
    assert "sync is paused by Ada [of ops]" in told.err
    told = await operator.call("jobs", "resume", "sync")
    assert told.out == "sync: resumed (was paused by Ada [of ops])\n"
    assert (await operator.call("jobs", "resume", "sync")).out == "sync: was not paused\n"
    told = await operator.call("jobs", "resume", "sync", "--json")
    assert (told.json["paused_at"], told.json["resumed_at"] > 0) == (0.0, True)
    assert "paused" not in (await operator.call("jobs", "list")).out
    told = await operator.call("jobs", "pause", "nobody")
    assert (told.code, "no worker ever registered a job 'nobody'" in told.err) == (2, True)


async def test_a_check_that_watches_nothing_is_not_well(operator: Operator) -> None:
    told = await operator.call("jobs", "check", "--namespace", "shpo")
    assert (told.code, "no worker ever registered a job in namespace 'shpo'" in told.out) == (1, True)
    told = await operator.call("jobs", "check", "--namespace", "shpo", "--json")
    assert (told.code, told.json) == (1, {"jobs": []})


async def test_an_overdue_job_is_an_exit_status(operator: Operator, jobs: Jobs) -> None:
    told = await operator.call("jobs", "check")
    assert (told.code, told.out) == (0, "2 jobs, none overdue\n")
    runs = jobs.runs()
    await runs.register(
        Registration(job=jobs.leases.full("dead"), schedule="always", fingerprint="x", rhythm=1e-6), timeout=5
    )
    await asyncio.sleep(0)
    told = await operator.call("jobs", "check")
    assert told.code == 1
    assert "overdue: " in told.out
    assert "dead has never succeeded" in told.out
    assert (await operator.call("jobs", "forget", "dead")).out == "dead: forgotten, with its history\n"
    assert (await operator.call("jobs", "check")).code == 0
    assert (await operator.call("jobs", "forget", "dead")).code == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("raise RuntimeError('at import')", "RuntimeError: at import"),
        ("import nobody_has_this", "No module named 'nobody_has_this'"),
        ("def (", "SyntaxError"),
        ("raise SystemExit(4)", "SystemExit: 4"),
        ("jobs = None", "is a NoneType: name a stampede_guard.jobs.Jobs"),
    ],
)
def test_a_program_that_cannot_be_imported_is_one_sentence(
    operator: Operator, tmp_path: Path, text: str, told: str
) -> None:
    (tmp_path / "wrong_program.py").write_text(text)
    found = operator.run("jobs", "run", "wrong_program:jobs", "sync", PYTHONPATH=str(tmp_path))
    assert (found.code, found.err.count("\n"), told in found.err) == (2, 1, True), found.err


def test_a_program_that_is_named_by_dots_is_no_traceback(operator: Operator, tmp_path: Path) -> None:
    (tmp_path / "wrong_program.py").write_text("jobs = None")
    found = operator.run("jobs", "run", "..wrong_program:jobs", "sync", PYTHONPATH=str(tmp_path))
    assert (found.code, "Traceback" in found.err) == (2, False)


@pytest.mark.parametrize(
    "command",
    [
        ("list", "--limit", "0"),
        ("history",),
        ("history", "nightly", "--limit", "0"),
        ("history", "nightly", "--limit", "x"),
        ("history", "nightly", "--outcome", "late"),
        ("history", "nightly", "--url", "mysql://h/d"),
        ("history", ""),
        ("check", "--namespace", "a b"),
        ("check", "--nope"),
        ("run", "program:jobs"),
        ("run", ":jobs", "nightly"),
        ("run", "program:", "nightly"),
        ("forget",),
    ],
)
async def test_a_command_that_means_nothing_is_exit_code_2_and_says_why(
    operator: Operator, command: tuple[str, ...]
) -> None:
    told = await operator.call("jobs", *command)
    assert (told.code, told.out) == (2, "")
    assert told.err


SLOW = """
import asyncio
import os
import signal
import subprocess
import sys
from stampede_guard.jobs import Jobs
from stampede_guard.leases import MemoryLeases

jobs = Jobs(MemoryLeases(), drain_timeout=3_600)

@jobs.every(300)
async def slow(run):
    print("begun", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("ended", flush=True)
"""


def test_an_interrupted_run_is_ended_and_not_only_its_waiting(tmp_path: Path) -> None:
    (tmp_path / "slow_program.py").write_text(SLOW)
    started = subprocess.Popen(
        [sys.executable, "-m", "stampede_guard", "jobs", "run", "slow_program:jobs", "slow"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == "begun\n"
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=60)
    finally:
        started.kill()
        started.wait()
    assert out == "ended\n"
    assert started.returncode != 0
    assert "abandoned after" in err


@pytest.mark.parametrize("name", ["[/b]x", "[red]alert[/red]", ":smile:", "100%", "{x}"])
async def test_names_are_shown_as_they_are(operator: Operator, server: ValkeyServer, name: str) -> None:
    async with RedisLeases.from_url(server.url, namespace=operator.namespace, restart="trust") as leases:
        jobs = Jobs(leases)

        @jobs.every(300, name=name)
        async def odd() -> None:
            raise ValueError(name)

        await jobs.run_now(name)
    for command in (
        ("jobs", "list"),
        ("jobs", "history", name),
        ("leases", "list"),
        ("leases", "show", name),
    ):
        told = await operator.call(*command)
        assert told.code == 0 and name in told.out, told
