"""One mode under load: workers up, entry filled, users in, everything watched, everything down again."""

from __future__ import annotations

import asyncio
import contextlib
import time
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine

from redis.asyncio import Redis

from bench.herd import processes
from bench.herd.expiry import record_expiry
from bench.herd.fleet import Fleet
from bench.herd.load import read_requests
from bench.herd.modes import Mode
from bench.herd.plan import Plan
from bench.herd.recording import Recording
from bench.herd.sampler import CpuSampler, ourselves, process_tree, sample_database, sample_redis_commands
from bench.herd.settings import AppSettings
from bench.herd.stage import Stage

__all__ = ["run_trial"]

_FIRST_PATIENCE = 30.0
_QUERIES_PATIENCE = 60.0
_STEP = 0.25


async def run_trial(stage: Stage, plan: Plan, mode: Mode, advance: Callable[[float], None]) -> Recording:
    """Record one mode. `advance(seconds)` is called with the progress of the load.

    Raises `RuntimeError` if a worker or Locust fails, or if fewer workers answered than were started.
    """
    namespace = f"herd-{uuid.uuid4().hex[:12]}"
    settings = AppSettings(
        mode=mode,
        database_url=stage.database_url,
        redis_url=stage.redis_url,
        namespace=namespace,
        ttl=plan.ttl,
        stale_ttl=plan.stale_ttl,
    )
    recording = Recording(mode, redis_commands=[] if stage.monitored else None)
    directory = processes.temporary_directory("herd-load-")
    fleet = Fleet(settings, plan.workers)
    try:
        await asyncio.to_thread(fleet.start)
        await asyncio.to_thread(_ask_once, fleet)
        async with contextlib.AsyncExitStack() as stack:
            load = plan.load.start(fleet.url, directory)
            stack.callback(load.stop, patience=2.0)
            await stack.enter_async_context(_watching(stage, fleet, load, recording))
            await _wait_for(load, plan.load.duration, advance)
            recording.stopped = time.time()
            await _queries_end(recording)
        if mode == "guard":
            recording.herd = await record_expiry(stage.redis_url, namespace, fleet, plan.ttl)
    finally:
        await asyncio.to_thread(fleet.stop)
        await _forget(stage.redis_url, namespace)
    recording.ramped, recording.requests = read_requests(directory / "requests.jsonl")
    recording.stopped = min(recording.stopped, recording.ramped + plan.load.seconds)
    answered = {request.worker for request in recording.requests} - {0}
    if len(answered) < plan.workers:
        raise RuntimeError(
            f"only {len(answered)} of {plan.workers} workers answered in mode {mode}: run it again"
        )
    return recording


def _ask_once(fleet: Fleet) -> None:
    """Fill the entry before the users come, as it is on any ordinary day."""
    try:
        with urllib.request.urlopen(f"{fleet.url}/quality?project=1", timeout=_FIRST_PATIENCE) as response:
            response.read()
    except OSError as error:
        raise RuntimeError(f"the first request failed ({error}):\n{fleet.last_words()}") from error


@contextlib.asynccontextmanager
async def _watching(
    stage: Stage, fleet: Fleet, load: processes.Child, recording: Recording
) -> AsyncIterator[None]:
    locust = process_tree(load.pid)
    cpu = CpuSampler(
        database=stage.database_pids,
        app=lambda: fleet.pids,
        rest=lambda: [*locust(), *stage.redis_pids(), *ourselves()],
    )
    watchers: list[Coroutine[None, None, None]] = [
        sample_database(stage.database_url, stage.query_id, recording.database),
        cpu.run(recording.cpu),
    ]
    if recording.redis_commands is not None:
        watchers.append(sample_redis_commands(stage.redis_url, recording.redis_commands))
    tasks = [asyncio.create_task(watcher) for watcher in watchers]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()  # a watcher that ended early saw only half of the trial
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _wait_for(load: processes.Child, duration: float, advance: Callable[[float], None]) -> None:
    told = 0.0
    while load.running:
        await asyncio.sleep(_STEP)
        step = min(_STEP, max(0.0, duration - told))
        told += step
        advance(step)
    advance(duration - told)
    if load.process.returncode != 0:
        raise RuntimeError(f"Locust ended with status {load.process.returncode}:\n{load.last_words()}")


async def _queries_end(recording: Recording) -> None:
    """Until a later sample sees no aggregate running: what the last users began is counted too."""
    async with asyncio.timeout(_QUERIES_PATIENCE):
        seen = len(recording.database)
        while len(recording.database) <= seen + 1 or recording.database[-1].running:  # noqa: ASYNC110
            await asyncio.sleep(_STEP)


async def _forget(url: str, namespace: str) -> None:
    """Leave nothing in a Redis that may not be ours."""
    client = Redis.from_url(url)
    try:
        async for key in client.scan_iter(match=f"*{namespace}*", count=1000):
            await client.delete(key)
    finally:
        await client.aclose()
