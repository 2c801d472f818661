"""`once_per_slot`: of all messages of a tick, one runs, in the thread of its task."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery import beat, current_task
from celery.exceptions import Ignore, SoftTimeLimitExceeded
from celery.schedules import BaseSchedule, crontab

from stampede_guard.engine.threads.portal import portal
from stampede_guard.errors import Misuse, PolicyError, StoreUnavailable
from stampede_guard.integrations.celery import exclusive, once_per_slot
from stampede_guard.integrations.celery.stamps import HEADER
from stampede_guard.jobs import current_run
from stampede_guard.jobs.messages import RunView
from stampede_guard.leases.memory import MemoryBackend
from tests.integrations.celery.shop import Shop

MAIN = threading.get_ident()
PATIENCE = 60.0
NIGHTLY = crontab(minute="0", hour="3")


@pytest.fixture
def shop() -> Iterator[Shop]:
    made = Shop()
    yield made
    made.leases.close()
    made.app.close()


def history(shop: Shop, job: str = "nightly") -> list[RunView]:
    return list(reversed(portal().call(lambda: shop.jobs.history(job))))


def outcomes(shop: Shop, job: str = "nightly") -> list[str]:
    return [run.outcome for run in history(shop, job)]


def ticked(shop: Shop, name: str = "nightly", *, beats: int = 1) -> list[Any]:
    """The messages of one tick."""
    for scheduler in [shop.beat() for _ in range(beats)]:
        scheduler.apply_async(scheduler.schedule[name], advance=False)
    return shop.sent()


def test_two_beats_send_one_slot_and_one_message_of_it_runs(shop: Shop) -> None:
    ran = []

    @once_per_slot(shop.jobs)
    def nightly() -> str:
        run = current_run()
        assert run is not None
        ran.append((threading.get_ident(), current_task.request.id, run.job))
        return "done"

    shop.task(nightly)
    shop.schedule(nightly=NIGHTLY)
    first, second = ticked(shop, beats=2)
    assert [shop.perform(second), shop.perform(first), shop.perform(first)] == ["done", None, None]
    assert ran == [(threading.get_ident(), second.headers["id"], "shop:nightly")]
    (run,) = history(shop)
    assert (run.outcome, run.slot) == ("completed", first.headers[HEADER]["slot"])


@pytest.mark.parametrize("scheduler", [beat.Scheduler, beat.PersistentScheduler], ids=["plain", "persistent"])
def test_only_messages_of_beat_for_such_tasks_have_a_slot(shop: Shop, scheduler: Any, tmp_path: Any) -> None:
    @once_per_slot(shop.jobs)
    def nightly() -> None: ...

    def other() -> None: ...

    shop.app.conf.beat_schedule_filename = str(tmp_path / "schedule")
    task, _ = shop.task(nightly), shop.task(other)
    shop.schedule(nightly=NIGHTLY, other=NIGHTLY)
    made = shop.beat(scheduler)
    for name in ("nightly", "other"):
        made.apply_async(made.schedule[name])
    task.delay()
    made.close()
    assert [HEADER in message.headers for message in shop.sent()] == [True, False, False]


def test_two_entries_of_one_task_are_two_jobs(shop: Shop) -> None:
    ran = []

    @once_per_slot(shop.jobs)
    def sync(repository: str) -> None:
        ran.append(repository)

    shop.task(sync)
    shop.schedule(
        a={"task": "sync", "schedule": NIGHTLY, "args": ("a",)},
        b={"task": "sync", "schedule": NIGHTLY, "kwargs": {"repository": "b"}},
    )
    for name in ("a", "b"):
        for message in ticked(shop, name, beats=2):
            shop.perform(message)
    assert ran == ["a", "b"]


def test_a_call_without_a_slot_simply_runs_and_says_so_once(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    @once_per_slot(shop.jobs)
    def nightly(number: int = 1) -> int:
        return number

    task = shop.task(nightly)
    assert (task(2), task.apply((3,)).get()) == (2, 3)
    task.delay(4)
    assert [shop.perform(message) for message in shop.sent()] == [4]
    assert len([record for record in caplog.records if "without a slot" in record.message]) == 1


def test_another_task_that_inherits_the_headers_has_no_slot(shop: Shop) -> None:
    """Celery copies headers to the message of a task that takes the place of another."""

    @once_per_slot(shop.jobs)
    def nightly() -> None: ...

    @once_per_slot(shop.jobs)
    def other() -> str:
        return "done"

    shop.task(nightly), shop.task(other)
    shop.schedule(nightly=NIGHTLY)
    first, second = ticked(shop, beats=2)
    for message in (first, second):
        message.headers["task"] = "other"
    assert [shop.perform(first), shop.perform(second)] == ["done", "done"]


def test_the_task_raises_the_error_of_the_function(shop: Shop) -> None:
    @once_per_slot(shop.jobs)
    def nightly() -> None:
        raise LookupError("no rows")

    shop.task(nightly)
    shop.schedule(nightly=NIGHTLY)
    first, second = ticked(shop, beats=2)
    failed = shop.perform(first)
    assert failed.state == "FAILURE" and repr(failed.retval) == "LookupError('no rows')"
    assert shop.perform(second) is None
    assert [(run.outcome, run.error) for run in history(shop)] == [("failed", "LookupError: no rows")]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration(1)], ids=repr)
def test_an_error_that_ends_a_program_reaches_the_tasks_thread_and_not_our_event_loop(
    shop: Shop, error: BaseException
) -> None:
    @once_per_slot(shop.jobs)
    def nightly() -> None:
        raise error

    shop.task(nightly)
    shop.schedule(nightly=NIGHTLY)
    (message,) = ticked(shop)
    try:
        found = shop.perform(message).retval
    except BaseException as raised:
        found = raised
    assert found is error
    assert outcomes(shop) == ["failed"]


def test_a_retry_runs_and_a_second_message_of_the_tick_does_not(shop: Shop) -> None:
    ran = []

    def nightly(self: Any) -> str:
        ran.append(self.request.retries)
        if self.request.retries < 2:
            raise self.retry(countdown=0, exc=LookupError("later"))
        return "done"

    shop.task(once_per_slot(shop.jobs)(nightly), bind=True)
    shop.schedule(nightly=NIGHTLY)
    first, second = ticked(shop, beats=2)
    assert shop.perform(first).state == "RETRY"
    (again,) = shop.sent()
    assert shop.perform(again).state == "RETRY"
    assert shop.perform(again) is None, "the retry was delivered twice"
    (third,) = shop.sent()
    assert [shop.perform(third), shop.perform(second)] == ["done", None]
    assert ran == [0, 1, 2]
    slots = [run.slot for run in history(shop)]
    assert slots == [slots[0], slots[0] + 1, slots[0] + 2]
    assert outcomes(shop) == ["failed", "failed", "completed"]


def test_a_message_that_never_had_the_slot_claims_it_when_it_is_retried(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. The back end is away for the first message. 2. The second one runs. 3. The first one is retried."""
    ran = []

    @once_per_slot(shop.jobs)
    def nightly() -> None:
        ran.append(1)

    shop.task(nightly, autoretry_for=(StoreUnavailable,), default_retry_delay=0)
    shop.schedule(nightly=NIGHTLY)
    first, second = ticked(shop, beats=2)
    with monkeypatch.context() as away:
        away.setattr(shop.jobs, "runs", _refuse)
        assert shop.perform(first).state == "RETRY"
    (again,) = shop.sent()
    assert [shop.perform(second), shop.perform(again)] == [None, None]
    assert ran == [1]
    assert outcomes(shop) == ["completed"]


def _refuse() -> Any:
    raise StoreUnavailable("it is away")


def test_a_task_that_ends_its_message_itself_has_completed(shop: Shop) -> None:
    @once_per_slot(shop.jobs)
    def nightly() -> None:
        raise Ignore

    shop.task(nightly)
    shop.schedule(nightly=NIGHTLY)
    (message,) = ticked(shop)
    assert shop.perform(message).state == "IGNORED"
    assert outcomes(shop) == ["completed"]


def test_a_slot_while_the_run_before_goes_on_is_skipped(shop: Shop) -> None:
    inside: list[Any] = []

    @once_per_slot(shop.jobs)
    def nightly() -> str:
        if not inside:
            inside.append(None)
            following.headers[HEADER] = {**first.headers[HEADER]}
            following.headers[HEADER]["slot"] += 60_000 * 60 * 24 * -1
            inside[0] = shop.perform(following)
        return "done"

    shop.task(nightly)
    shop.schedule(nightly=NIGHTLY)
    first, following = ticked(shop, beats=2)
    assert shop.perform(first) == "done"
    assert inside == [None]
    assert sorted(outcomes(shop)) == ["completed", "skipped"]


def test_a_message_that_waited_too_long_is_missed(shop: Shop) -> None:
    @once_per_slot(shop.jobs, misfire_grace="10m")
    def nightly() -> str:
        return "done"

    shop.task(nightly)
    shop.schedule(nightly=NIGHTLY)
    first, second = ticked(shop, beats=2)
    first.headers[HEADER]["sent_at"] -= 601
    assert [shop.perform(first), shop.perform(second)] == [None, None]
    assert outcomes(shop) == ["missed"]


def test_a_soft_time_limit_ends_the_function_and_the_slot(shop: Shop) -> None:
    """Celery raises it from a signal handler in the task's thread."""

    def limit(*_: Any) -> None:
        raise SoftTimeLimitExceeded

    before = signal.signal(signal.SIGUSR1, limit)

    @once_per_slot(shop.jobs)
    def nightly() -> None:
        signal.raise_signal(signal.SIGUSR1)

    shop.task(nightly)
    shop.schedule(nightly=NIGHTLY)
    (message,) = ticked(shop)
    try:
        assert shop.perform(message).state == "FAILURE"
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [run.outcome for run in history(shop)] == ["failed"]


def test_a_caller_that_leaves_before_its_function_begins_never_runs_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. The claim is sent. 2. A soft time limit interrupts the wait. 3. The answer arrives: the task has the slot."""
    ran, left = [], threading.Event()

    def limit(*_: Any) -> None:
        left.set()
        raise SoftTimeLimitExceeded

    @once_per_slot(shop.jobs)
    def nightly() -> None:
        ran.append(1)

    shop.task(nightly)
    shop.schedule(nightly=NIGHTLY)
    (message,) = ticked(shop)
    acquire = MemoryBackend.acquire

    async def slowly(*args: Any, **kwargs: Any) -> Any:
        found = await acquire(*args, **kwargs)
        signal.pthread_kill(MAIN, signal.SIGUSR1)
        assert left.wait(PATIENCE)
        return found

    monkeypatch.setattr(MemoryBackend, "acquire", slowly)
    before = signal.signal(signal.SIGUSR1, limit)
    try:
        assert shop.perform(message).state == "FAILURE"
    finally:
        signal.signal(signal.SIGUSR1, before)
    end = time.monotonic() + PATIENCE
    while outcomes(shop) != ["abandoned"]:
        assert time.monotonic() < end, history(shop)
    assert ran == []


def test_a_schedule_without_slots_is_refused_when_beat_sends_it(shop: Shop) -> None:
    @once_per_slot(shop.jobs)
    def nightly() -> None: ...

    shop.task(nightly)
    shop.schedule(nightly=BaseSchedule(app=shop.app))
    made = shop.beat()
    with pytest.raises(Misuse, match="write crontab"):
        made.apply_async(made.schedule["nightly"], advance=False)
    assert shop.sent() == []


def test_mistakes_are_named_at_decoration(shop: Shop) -> None:
    async def coroutine() -> None: ...
    def plain() -> None: ...

    task = shop.task(plain)
    for decorate in (once_per_slot(shop.jobs), exclusive(shop.leases, "n")):
        with pytest.raises(Misuse, match="coroutine function"):
            decorate(coroutine)
        with pytest.raises(Misuse, match=r"below @app\.task"):
            decorate(task)
    with pytest.raises(Misuse, match=r"write @once_per_slot\(jobs\)"):
        once_per_slot(plain)  # type: ignore[arg-type]
    with pytest.raises(Misuse, match=r"@jobs\.cron"):
        once_per_slot(shop.jobs, retry_abandoned=True)  # type: ignore[call-arg]
    with pytest.raises(Misuse, match="do you mean"):
        once_per_slot(shop.jobs, misfire=3)  # type: ignore[call-arg]
    with pytest.raises(PolicyError):
        once_per_slot(shop.jobs, overlap="never")  # type: ignore[arg-type]


def test_an_interval_has_slots_too(shop: Shop) -> None:
    @once_per_slot(shop.jobs)
    def often() -> str:
        return "done"

    shop.task(often)
    shop.schedule(often=timedelta(days=3650))
    assert [shop.perform(message) for message in ticked(shop, "often", beats=3)] == ["done", None, None]
