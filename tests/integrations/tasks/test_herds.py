"""Eight real worker processes of each task system: one computation for all tasks that need a value at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dramatiq
import psutil
import pytest
import redis
import rq
from arq.connections import RedisSettings, create_pool
from celery import Celery
from dramatiq.brokers.redis import RedisBroker

from bench.herd import processes
from stampede_guard import StampedeGuard
from tests.integrations.tasks.bell import PATIENCE, Bell

ROOT = Path(__file__).resolve().parents[3]
HERE = "tests.integrations.tasks"
WORKERS = 8
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING")
# Dramatiq takes no task that it cannot run at once, so that each process has its share of a herd.
ONE_AT_A_TIME = {"dramatiq_queue_prefetch": "1"}

Submit = Callable[..., None]


class Fleet:
    """Worker processes of one task system, and a test's way to them."""

    def __init__(self, url: str, namespace: str, log: Path, *commands: list[str]) -> None:
        self.url = url
        self.namespace = namespace
        self.bell = Bell(url, namespace)
        self.log = log
        environment = {**os.environ, "TASKS_URL": url, "TASKS_NAMESPACE": namespace, **ONE_AT_A_TIME}
        self.children = [
            processes.start([sys.executable, "-m", *command], log=log, cwd=ROOT, env=environment)
            for command in commands
        ]

    def words(self) -> str:
        return self.log.read_text(errors="replace")

    def herd(self, submit: Submit, task: str, key: str, *, processes: int) -> None:
        """Eight tasks ask for a value that nobody has. One of them computes it."""
        for _ in range(WORKERS):
            submit(task, key)
        assert len(set(self.bell.heard("began", WORKERS))) == processes, self.words()
        self.bell.open(key)
        assert self.bell.heard("reported", WORKERS) == [f"total of {key}"] * WORKERS
        assert len(self.bell.heard("computed", 1)) == 1
        assert self.bell.rest("computed") == []

    def exclusive(self, submit: Submit) -> None:
        """Of eight tasks at once, one runs. When it has ended, another one may."""
        for _ in range(WORKERS):
            submit("exclusive")
        assert len(set(self.bell.heard("skipped", WORKERS - 1))) >= 1, self.words()
        self.bell.open("import")
        assert self.bell.heard("imports", 1) == self.bell.heard("done", 1)
        submit("exclusive")
        assert self.bell.heard("imports", 1) == self.bell.heard("done", 1)
        assert self.bell.rest("skipped") == []


@pytest.fixture
def fleet(valkey_url: str, namespace: str, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    made: list[Fleet] = []

    def start(*commands: list[str]) -> Fleet:
        made.append(Fleet(valkey_url, namespace, tmp_path / "log", *commands))
        return made[0]

    yield start
    for one in made:
        for child in one.children:
            child.kill()
        one.bell.close()
        assert "Traceback" not in one.words(), one.words()


def celery_worker(pool: str, *more: str) -> list[str]:
    return ["celery", "-A", f"{HERE}.celery_app", "worker", "--pool", pool, *QUIET, *more]


@contextmanager
def to_celery(fleet: Fleet) -> Iterator[Submit]:
    with Celery(broker=fleet.url) as app:
        yield lambda task, *args: app.send_task(task, args, queue=f"{fleet.namespace}-celery") and None


def test_celerys_forked_workers(fleet: Callable[..., Fleet]) -> None:
    workers = fleet(celery_worker("prefork", "--concurrency", f"{WORKERS}"))
    with to_celery(workers) as submit:
        workers.herd(submit, "report", "plain", processes=WORKERS)
        workers.herd(submit, "areport", "async", processes=WORKERS)
        workers.exclusive(submit)
        _refresh_in_a_child_that_ends(workers, submit)


def _refresh_in_a_child_that_ends(workers: Fleet, submit: Submit) -> None:
    """A child ends with the pool, or after `max_tasks_per_child`. What it began in the background is finished first."""
    bell, (main,) = workers.bell, workers.children
    for number in (1, 2):
        submit("look")
        assert (bell.heard("figures", 1), bell.heard("looked", 1)) == ([number], [1])
    os.kill(main.pid, signal.SIGTERM)
    children = bell.heard("leaving", WORKERS)
    # Without this, the others would end no earlier than the one that still computes.
    while sum(map(_has_ended, children)) < WORKERS - 1:
        assert main.running, workers.words()
        threading.Event().wait(0.01)  # no event tells that a grandchild has ended
    bell.open("figure")
    main.process.wait(PATIENCE)
    guard = StampedeGuard.from_url(workers.url, namespace=workers.namespace)

    @guard.locked_cache(ttl=600, stale_ttl=600, name=f"{HERE}.work.figure")
    def figure() -> int:
        return -1

    assert figure() == 2
    guard.close()


def _has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_celerys_threads_and_greenlets(fleet: Callable[..., Fleet]) -> None:
    """Two processes with four tasks at once each, one in threads, one in greenlets."""
    pools = ("threads", "gevent")
    workers = fleet(*(celery_worker(pool, "--concurrency", "4", "--hostname", pool) for pool in pools))
    with to_celery(workers) as submit:
        workers.herd(submit, "report", "plain", processes=2)
        workers.exclusive(submit)


def test_the_work_horses_of_rq(fleet: Callable[..., Fleet]) -> None:
    workers = fleet([f"{HERE}.rq_workers", f"{WORKERS}"])
    with redis.Redis.from_url(workers.url) as connection:
        queue = rq.Queue(f"{workers.namespace}-rq", connection=connection)

        def submit(task: str, *args: str) -> None:
            queue.enqueue(f"{HERE}.work.{task}", *args)

        workers.herd(submit, "report", "plain", processes=WORKERS)
        workers.exclusive(submit)
        _refresh_in_a_horse(workers, submit)


def _refresh_in_a_horse(workers: Fleet, submit: Submit) -> None:
    """A horse ends with its job. A refresh that the job began is finished before that."""
    bell = workers.bell
    submit("look")
    assert (bell.heard("figures", 1), bell.heard("looked", 1)) == ([1], [1])
    submit("look")
    assert (bell.heard("figures", 1), bell.heard("looked", 1)) == ([2], [1])
    bell.open("figure")
    seen = [1]
    while seen == [1]:
        submit("look")
        seen = bell.heard("looked", 1)
    assert seen == [2]
    assert bell.rest("figures") == []


async def test_workers_of_arq(fleet: Callable[..., Fleet]) -> None:
    workers = fleet([f"{HERE}.arq_workers", f"{WORKERS}"])
    pool = await create_pool(RedisSettings.from_dsn(workers.url))

    def in_thread() -> None:
        workers.herd(submit, "report", "async", processes=WORKERS)
        workers.exclusive(submit)

    loop = asyncio.get_running_loop()

    def submit(task: str, *args: str) -> None:
        job = pool.enqueue_job(task, *args, _queue_name=f"{workers.namespace}-arq")
        asyncio.run_coroutine_threadsafe(job, loop).result()

    await asyncio.to_thread(in_thread)
    await pool.aclose()


def test_dramatiqs_processes(fleet: Callable[..., Fleet]) -> None:
    workers = fleet([f"{HERE}.dramatiq_workers", "--processes", f"{WORKERS}", "--threads", "1"])
    broker = RedisBroker(url=workers.url, namespace=f"{workers.namespace}-dramatiq")

    def submit(task: str, *args: str) -> None:
        broker.declare_queue("default")
        broker.enqueue(dramatiq.Message("default", task, args, {}, {}))

    workers.herd(submit, "report", "plain", processes=WORKERS)
    workers.exclusive(submit)
    broker.close()
