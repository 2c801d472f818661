"""The stuck locks that users of redbeat and celery-once report, with these packages, and the same without them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from celery import Celery, beat, signals
from celery.exceptions import OperationalError
from celery_once import AlreadyQueued  # type: ignore[import-untyped]
from redbeat import RedBeatScheduler  # type: ignore[import-untyped]

from bench.herd import processes
from tests.integrations.celery.programs import made
from tests.integrations.tasks.bell import Bell

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = "tests.integrations.celery.programs"
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING")
TWENTY_MINUTES = 20 * 60

Start = Callable[..., processes.Child]


@pytest.fixture
def bell(valkey_url: str, namespace: str) -> Iterator[Bell]:
    made_bell = Bell(valkey_url, namespace)
    yield made_bell
    made_bell.close()


@pytest.fixture
def start(valkey_url: str, namespace: str, tmp_path: Path) -> Iterator[Start]:
    children: list[processes.Child] = []

    def celery(*command: str) -> processes.Child:
        children.append(
            processes.start(
                [sys.executable, "-m", "celery", "-A", PROGRAM, *command],
                log=tmp_path / f"log{len(children)}",
                cwd=ROOT,
                env={**os.environ, "PROGRAMS_URL": valkey_url, "PROGRAMS_NAMESPACE": namespace},
            )
        )
        return children[-1]

    yield celery
    for child in children:
        child.kill()


@pytest.fixture
def app(valkey_url: str, namespace: str) -> Iterator[Celery]:
    app = made(valkey_url, namespace)
    yield app
    app.close()


def heard_from_all(bell: Bell, children: list[processes.Child]) -> None:
    """Wait until each of these beats has sent something."""
    missing = {child.pid for child in children}
    while missing:
        missing -= set(bell.heard("sent", 1))


def test_a_killed_beat_of_redbeat_locks_the_next_one_out_and_ours_needs_no_lock(
    start: Start, bell: Bell, app: Celery, valkey_url: str, tmp_path: Path
) -> None:
    worker = start("worker", "--pool", "gevent", "--concurrency", "2", *QUIET)
    plain = start("beat", "--schedule", str(tmp_path / "schedule"))
    theirs = start("beat", "--scheduler", "redbeat.RedBeatScheduler")
    heard_from_all(bell, [plain, theirs])
    ran: list[float] = bell.heard("ran", 4)

    theirs.kill()
    with redis.Redis.from_url(valkey_url) as client:
        lock = RedBeatScheduler(app, lazy=True).lock_key
        # The next beat of redbeat waits for this before it schedules anything.
        assert client.ttl(lock) > TWENTY_MINUTES
        assert not client.lock(lock, timeout=1).acquire(blocking=False)

    killed_at = time.time()
    while ran[-1] < killed_at + 1.0:
        ran += bell.heard("ran", 1)
    assert worker.running and plain.running
    assert len(set(ran)) == len(ran), "each slot ran once"
    assert all(round(slot * 1000) % 400 == 0 for slot in ran)


def test_a_beat_of_redbeat_ends_when_its_lock_is_gone(app: Celery, valkey_url: str) -> None:
    """The server has restarted or evicted the lock, or this machine has slept for longer than the lock lives."""
    service = beat.Service(app, scheduler_cls=RedBeatScheduler)
    signals.beat_init.send(sender=service)
    with redis.Redis.from_url(valkey_url) as client:
        client.delete(service.scheduler.lock_key)
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        service.scheduler.tick()


def test_a_killed_task_of_celery_once_stays_locked_for_an_hour_and_ours_for_its_lease(
    start: Start, bell: Bell, app: Celery
) -> None:
    start("worker", "--pool", "prefork", "--concurrency", "2", *QUIET)
    theirs, ours = app.tasks["theirs"], app.tasks["ours"]

    theirs.delay("a")
    (running,) = bell.heard("theirs", 1)
    os.kill(running, signal.SIGKILL)
    with pytest.raises(AlreadyQueued) as refused:
        theirs.delay("a")
    assert refused.value.countdown > 50 * 60

    ours.delay("a")
    (running,) = bell.heard("ours", 1)
    ours.delay("a")
    os.kill(running, signal.SIGKILL)
    (following,) = bell.heard("ours", 1)
    assert following != running
    bell.open("a")


def test_a_task_of_celery_once_that_no_broker_got_is_locked_and_ours_can_be_sent_again(
    app: Celery, bell: Bell
) -> None:
    theirs, ours = app.tasks["theirs"], app.tasks["ours"]
    once = {"max_retries": 1, "interval_start": 0, "interval_step": 0}
    with app.connection_for_write("amqp://127.0.0.1:1//", transport_options=once) as nowhere:
        for task in (theirs, ours):
            with pytest.raises(OperationalError):
                task.apply_async(("b",), connection=nowhere, retry=False)
    with pytest.raises(AlreadyQueued):
        theirs.delay("b")
    ours.delay("b")


@pytest.mark.parametrize("how", ["ignored", "rejected"])
def test_a_task_of_celery_once_that_raises_before_it_runs_stays_locked_and_ours_runs_when_sent_again(
    how: str, start: Start, bell: Bell, app: Celery
) -> None:
    start("worker", "--pool", "solo", *QUIET)
    theirs, ours = app.tasks["theirs"], app.tasks["ours"]
    for task in (theirs, ours):
        task.apply_async((how,), headers={"refused": how})
    # The worker does one task after the other. So it has finished with both when it runs the third.
    ours.delay(how)
    assert bell.heard("refused", 2) == ["theirs", "ours"]
    bell.heard("ours", 1)
    with pytest.raises(AlreadyQueued) as refused:
        theirs.delay(how)
    assert refused.value.countdown > 50 * 60
    ours.delay(how)
    bell.open(how)
    bell.heard("ours", 1)
    assert bell.rest("theirs") == [], "it has never run"
