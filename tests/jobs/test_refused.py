"""What jobs get for bad input: at registration, an error that names the field, the rule and what to write instead."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from stampede_guard.durations import Duration
from stampede_guard.errors import Misuse, PolicyError
from stampede_guard.jobs import Jobs, Run
from stampede_guard.jobs.job import TermOptions, Terms
from stampede_guard.jobs.schedules.schedule import Cron, Every
from stampede_guard.leases import MemoryLeases
from tests.jobs.test_table import Edited

ROOT = Path(__file__).resolve().parents[2]
NAN, INF = float("nan"), float("inf")


@pytest.fixture
def jobs() -> Jobs:
    return Jobs(MemoryLeases())


async def nothing() -> None: ...


async def with_run(run: Run) -> None: ...


async def of_two(run: Run, repository: str) -> None: ...


async def of_arguments(repository: str) -> None:
    assert repository == "a"


async def by_keyword(*, run: Run) -> None: ...


async def any_keyword(run: Run, **rest: str) -> None: ...


async def yielding(run: Run) -> Any:
    yield run


def yielding_plainly(run: Run) -> Any:
    yield run


class Nightly:
    seen = 0

    def __call__(self, run: Run) -> None:
        self.seen += 1

    async def method(self, run: Run) -> None:
        self.seen += 1


class Yielding:
    async def __call__(self, run: Run) -> Any:
        yield run


class Awaited:
    seen = 0

    async def __call__(self) -> None:
        self.seen += 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"leases": None}, "not None"),
        ({"leases": "redis://localhost"}, "not 'redis://localhost'"),
        ({"runs": 5}, "runs=5: write a function"),
        ({"version": "2"}, "version='2' is not allowed: write a whole number"),
        ({"version": True}, "version=True"),
        ({"version": 1.5}, "version=1.5"),
        ({"version": -1}, "version=-1"),
        ({"drain_timeout": -1}, "drain_timeout=-1 is not allowed: write a number of seconds, 0 or more"),
        ({"drain_timeout": NAN}, "drain_timeout=nan"),
        ({"drain_timeout": INF}, "drain_timeout=inf"),
        ({"drain_timeout": "30"}, "drain_timeout='30'"),
        ({"drain_timeout": None}, "drain_timeout=None"),
    ],
)
def test_jobs_that_cannot_work_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(Misuse) as refused:
        Jobs(given.pop("leases", MemoryLeases()), **given)
    assert told in str(refused.value)


@pytest.mark.parametrize("decorator", ["every", "cron", "add", "table"])
@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("overlap", "never", "write one of skip, queue, replace, allow"),
        ("overlap", ["skip"], "write one of"),
        ("misfire_grace", "60", "a number of seconds, 1 or more"),
        ("misfire_grace", 0.5, "1 or more"),
        ("misfire_grace", INF, "1 or more"),
        ("coalesce", "yes", "write True or False"),
        ("coalesce", None, "write True or False"),
        ("jitter", True, "a number of seconds"),
        ("jitter", -1, "0 or more"),
        ("jitter", 61, "at most misfire_grace=60"),
        ("time_limit", 0, "0.001 or more"),
        ("time_limit", NAN, "a number of seconds"),
        ("time_limit", timedelta(0), "0.001 or more"),
        ("time_limit", "1 minute", "numbers with the units"),
        ("retry_abandoned", 1, "write True or False"),
        ("lease_ttl", NAN, "a number of seconds"),
        ("lease_ttl", -60, "greater than 0"),
    ],
)
def test_terms_that_mean_nothing_are_refused_by_name(
    jobs: Jobs, decorator: str, field: str, value: object, rule: str
) -> None:
    terms: dict[str, Any] = {field: value}
    register: dict[str, Callable[[], object]] = {
        "every": lambda: jobs.every(300, **terms),
        "cron": lambda: jobs.cron("0 3 * * *", **terms),
        "add": lambda: jobs.add(nothing, Every.of(300), **terms),
        "table": lambda: jobs.table({"sync": nothing}, rows=Edited(), **terms),
    }
    with pytest.raises(PolicyError) as refused:
        register[decorator]()
    assert (refused.value.field, rule in refused.value.rule) == (field, True)
    assert jobs.names == []


def test_what_is_just_within_its_bounds_is_taken(jobs: Jobs) -> None:
    job = jobs.add(nothing, Every.of(1), jitter=5, misfire_grace=5, time_limit=0.001)
    assert (job.terms.jitter, job.terms.time_limit) == (5, 0.001)
    with pytest.raises(PolicyError, match=r"jitter=5\.001"):
        jobs.add(nothing, Every.of(1), jitter=5.001, misfire_grace=5)


def test_type_checkers_know_every_term_of_a_job_with_its_type() -> None:
    read = get_type_hints(Terms)
    times = dict.fromkeys(("misfire_grace", "jitter", "lease_ttl"), Duration)
    assert get_type_hints(TermOptions) == read | times | {"time_limit": Duration | None}


def test_a_term_that_there_is_not_is_refused_with_those_that_there_are(jobs: Jobs) -> None:
    with pytest.raises(
        Misuse,
        match=r"has no time_limt \(do you mean time_limit\?\); it has anchor, name, overlap, ",
    ):
        jobs.every(300, time_limt=3)
    with pytest.raises(Misuse, match=r"jobs.table has no name.*; it has connect, .*, lease_ttl"):
        jobs.table({"sync": nothing}, rows=Edited(), name="x")


@pytest.mark.parametrize(
    ("seconds", "anchor", "field"),
    [
        (timedelta(milliseconds=500), None, "every"),
        ("300", None, "every"),
        (nothing, None, "every"),
        (-5, None, "every"),
        (0.5, None, "every"),
        (1.0005, None, "every"),
        (NAN, None, "every"),
        (1e300, datetime(2026, 1, 1, tzinfo=UTC), "every"),
        (7, None, "anchor"),
        (7, datetime(2026, 1, 1), "anchor"),
        (7, "2026-01-01", "anchor"),
        (7, 5, "anchor"),
    ],
)
def test_an_interval_that_means_nothing_is_refused_where_it_is_written(
    jobs: Jobs, seconds: Any, anchor: Any, field: str
) -> None:
    with pytest.raises(PolicyError) as refused:
        jobs.every(seconds, anchor=anchor)(nothing)
    assert refused.value.field == field
    assert refused.value.rule


@pytest.mark.parametrize(
    ("expression", "tz", "field"),
    [
        ("@daily", "UTC", "cron"),
        ("0 3 * *", "UTC", "cron"),
        ("* * * * * * *", "UTC", "cron"),
        ("99 * * * *", "UTC", "cron"),
        ("0 3 * * MON#6", "UTC", "cron"),
        ("0 0 31 4 *", "UTC", "cron"),
        (b"0 3 * * *", "UTC", "cron"),
        (nothing, "UTC", "cron"),
        ("0 3 * * *", "Europe/Nowhere", "tz"),
        ("0 3 * * *", "", "tz"),
        ("0 3 * * *", UTC, "tz"),
    ],
)
def test_an_expression_that_means_nothing_is_refused_where_it_is_written(
    jobs: Jobs, expression: Any, tz: Any, field: str
) -> None:
    for register in (lambda: jobs.cron(expression, tz=tz), lambda: Cron(expression, tz)):
        with pytest.raises(PolicyError) as refused:
            register()
        assert refused.value.field == field
        assert refused.value.rule


def test_a_schedule_that_was_made_by_hand_is_held_to_the_same() -> None:
    for seconds in (0, NAN, "300"):
        with pytest.raises(PolicyError, match="every="):
            Every(seconds)  # type: ignore[arg-type]


@pytest.mark.parametrize("schedule", ["0 3 * * *", 300, None, Every])
def test_what_is_no_schedule_is_refused(jobs: Jobs, schedule: Any) -> None:
    with pytest.raises(Misuse, match=r"needs a schedule, Cron.of"):
        jobs.add(nothing, schedule)


@pytest.mark.parametrize(
    ("function", "name", "told"),
    [
        (yielding, None, "the job 'yielding' has `yield`"),
        (yielding_plainly, None, "has `yield`"),
        (Yielding(), "x", "has `yield`"),
        (functools.partial(yielding), "x", "has `yield`"),
        (lambda: None, None, "write name=..."),
        (functools.partial(nothing), None, "write name=..."),
        (Nightly(), None, "write name=..."),
        (nothing, "", "write name=..."),
        (nothing, 5, "write name=..."),
        (nothing, "a\nb", "1 to 200 printable characters"),
        (nothing, "x" * 201, "1 to 200 printable characters"),
        (Nightly, None, "the job 'Nightly' is the class Nightly"),
        (dict, None, "is the class dict"),
        (None, "x", "needs a function, not None"),
        ("nightly", "x", "needs a function, not 'nightly'"),
        (of_two, None, "needs run, repository: bind them with functools.partial"),
        (by_keyword, None, "needs run by keyword"),
        (max, None, "cannot be read"),
    ],
)
def test_what_cannot_be_run_is_refused(jobs: Jobs, function: Any, name: Any, told: str) -> None:
    with pytest.raises(Misuse) as refused:
        jobs.every(300, name=name)(function)
    assert told in str(refused.value)
    assert jobs.names == []


def test_a_coroutine_instead_of_its_function_is_refused(jobs: Jobs) -> None:
    given = nothing()
    with pytest.raises(Misuse, match="needs a function, not <coroutine"):
        jobs.every(300, name="x")(given)
    given.close()


@pytest.mark.parametrize(
    ("function", "arguments", "told"),
    [
        (of_two, [1], "write a dict"),
        (of_two, {}, "needs run, repository"),
        (of_two, {"repositry": "a", "repository": "b"}, "has no parameter repositry; it has run, repository"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(jobs: Jobs, function: Any, arguments: Any, told: str) -> None:
    with pytest.raises(Misuse) as refused:
        jobs.add(function, Every.of(300), arguments=arguments)
    assert told in str(refused.value)


async def test_whatever_can_be_called_is_run_as_it_wants_to_be() -> None:
    seen: list[Any] = []

    def plain_lambda() -> Callable[..., Any]:
        return lambda run: seen.append(run.job)

    nightly, awaited = Nightly(), Awaited()
    async with MemoryLeases() as leases:
        jobs = Jobs(leases)
        jobs.every(300, name="lambda")(plain_lambda())
        jobs.every(300)(nightly.method)
        jobs.every(300, name="object")(nightly)
        jobs.every(300, name="awaited")(awaited)
        jobs.every(300, name="partial")(functools.partial(of_two, repository="a"))
        jobs.every(300)(nothing)
        jobs.add(of_two, Every.of(300), arguments={"repository": "a"})
        jobs.add(of_arguments, Every.of(300), arguments={"repository": "a"})
        jobs.add(any_keyword, Every.of(300), arguments={"anything": "a"})
        for name in jobs.names:
            ending = await jobs.run_now(name)
            assert (name, ending.outcome, ending.error) == (name, "completed", "")
    assert (seen, nightly.seen, awaited.seen) == (["default:lambda"], 2, 1)


def test_a_method_is_the_same_function_each_time_it_is_looked_up(jobs: Jobs) -> None:
    nightly = Nightly()
    jobs.every(300)(nightly.method)
    jobs.every(600)(nightly.method)
    assert jobs.names == ["method"]
    with pytest.raises(Misuse, match="two functions have the job name 'method'"):
        jobs.every(600)(Nightly().method)


@pytest.mark.parametrize(
    ("functions", "given", "told"),
    [
        ([nothing], {"rows": Edited()}, "needs the functions that its rows may name"),
        (None, {"rows": Edited()}, "needs the functions that its rows may name"),
        ({1: nothing}, {"rows": Edited()}, "a row cannot name the job 1"),
        ({"": nothing}, {"rows": Edited()}, "a row cannot name the job ''"),
        ({"sync": 5}, {"rows": Edited()}, "the job 'sync' needs a function, not 5"),
        ({"sync": yielding}, {"rows": Edited()}, "has `yield`"),
        ({"sync": nothing}, {}, "either connect=pool.acquire or rows=..., not both"),
        ({"sync": nothing}, {"rows": Edited(), "connect": print}, ", not both"),
        ({"sync": nothing}, {"rows": 5}, "rows=5: write an object with active() and ran()"),
        ({"sync": nothing}, {"connect": "postgresql://"}, "write pool.acquire"),
        ({"sync": nothing}, {"connect": print, "table": 5}, "table=5: write a plain name"),
        ({"sync": nothing}, {"connect": print, "table": "Jobs"}, "table='Jobs': write a plain name"),
        ({"sync": nothing}, {"rows": Edited(), "poll_every": 0}, "poll_every=0 is not allowed"),
        ({"sync": nothing}, {"rows": Edited(), "poll_every": NAN}, "poll_every=nan"),
        ({"sync": nothing}, {"rows": Edited(), "poll_every": INF}, "poll_every=inf"),
        ({"sync": nothing}, {"rows": Edited(), "poll_every": "10"}, "poll_every='10'"),
        ({"sync": nothing}, {"rows": Edited(), "poll_every": True}, "poll_every=True"),
    ],
)
def test_a_table_that_cannot_be_followed_is_refused(
    jobs: Jobs, functions: Any, given: dict[str, Any], told: str
) -> None:
    with pytest.raises(Misuse) as refused:
        jobs.table(functions, **given)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"limit": -1}, "limit=-1 is not allowed: write a whole number, 0 or more"),
        ({"limit": "10"}, "limit='10'"),
        ({"limit": True}, "limit=True"),
        ({"limit": NAN}, "limit=nan"),
        ({"before": datetime(2026, 1, 1)}, "before="),
        ({"before": "2026"}, "before='2026'"),
        ({"outcomes": ("late",)}, "write a tuple of running, completed"),
        ({"outcomes": "failed"}, "write a tuple of"),
    ],
)
async def test_a_history_that_cannot_be_is_refused(asked: dict[str, Any], told: str) -> None:
    async with MemoryLeases() as leases:
        with pytest.raises(PolicyError) as refused:
            await Jobs(leases).history("x", **asked)
    assert told in str(refused.value)


async def test_other_questions_that_mean_nothing_are_refused() -> None:
    async with MemoryLeases() as leases:
        jobs = Jobs(leases)
        with pytest.raises(PolicyError, match="limit=-1"):
            await jobs.views(limit=-1)
        for name in (5, [], "unknown"):
            with pytest.raises(Misuse, match=r"there is no job .* in this program; it has none"):
                await jobs.run_now(name)  # type: ignore[arg-type]
        with pytest.raises(Misuse, match="printable"):
            await jobs.view("")
        with pytest.raises(PolicyError, match="drain_timeout='x'"):
            jobs.start()
            await jobs.stop(drain_timeout="x")  # type: ignore[arg-type]
        await jobs.stop()


def test_a_start_without_an_event_loop_says_what_to_write(jobs: Jobs) -> None:
    with pytest.raises(Misuse, match=r"call it in a coroutine, or write FastAPI\(lifespan=jobs.lifespan\)"):
        jobs.start()


def test_without_the_package_that_reads_cron_expressions_it_is_named() -> None:
    program = """
import sys
sys.modules["cronsim"] = None
from stampede_guard.jobs import Jobs
from stampede_guard.leases import MemoryLeases
jobs = Jobs(MemoryLeases())
jobs.every(300, name="fine")(print)
try:
    jobs.cron("0 3 * * *")
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("Misuse ")
    assert "pip install '.[jobs]'" in done.stdout
