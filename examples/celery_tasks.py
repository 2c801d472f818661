"""Celery: two beats and one run per tick, a cached function in tasks, and a task that never runs twice at a time.

    python examples/celery_tasks.py

needs Redis or Valkey at $REDIS_URL (redis://localhost:6379/0 without it). The beats and the worker are in this program;
in production they are `celery beat` and `celery worker`. It prints, the first time:

    two beats sent 2 messages, and 1 ran
    the report has 1400000 rows
    of 4 imports at once, 1 ran
"""

from __future__ import annotations

import os
import threading

from celery import Celery, beat, signals
from celery.contrib.testing.worker import start_worker
from celery.schedules import crontab

from stampede_guard import StampedeGuard
from stampede_guard.integrations.celery import exclusive, once_per_slot
from stampede_guard.jobs import Jobs
from stampede_guard.leases import RedisLeases

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
app = Celery("shop", broker=URL, backend=URL)
app.conf.update(task_default_queue="celery-example", worker_hijack_root_logger=False)
app.conf.beat_schedule = {"nightly": {"task": "nightly", "schedule": crontab(hour="3", minute="0")}}

guard = StampedeGuard.from_url(URL, namespace="celery-example")
leases = RedisLeases.from_url(URL, namespace="celery-example", restart="trust")
ran: list[str] = []
skipped = threading.Semaphore(0)


@guard.locked_cache(ttl=300)
def rows(project: int) -> int:
    return 1_400_000


@app.task(name="nightly")
@once_per_slot(Jobs(leases))
def nightly() -> int:
    ran.append("nightly")
    return rows(7)


@exclusive(leases, "import")
def import_all() -> str:
    for _ in range(3):
        skipped.acquire()  # an import takes its time
    return "imported"


@app.task(name="import")
def one_import() -> str | None:
    result = import_all()
    if result is None:
        skipped.release()
    return result


with start_worker(app, pool="threads", concurrency=4, perform_ping_check=False, loglevel="ERROR"):
    results = []
    for _ in range(2):
        service = beat.Service(app, scheduler_cls=beat.Scheduler)
        service.scheduler.update_from_dict(app.conf.beat_schedule)
        signals.beat_init.send(sender=service)  # a beat starts, and a tick comes
        results.append(service.scheduler.apply_async(service.scheduler.schedule["nightly"]))
    numbers = [result.get(timeout=30) for result in results]
    print(f"two beats sent {len(numbers)} messages, and {ran.count('nightly')} ran")
    print(f"the report has {max(filter(None, numbers))} rows")
    imports = [one_import.delay() for _ in range(4)]
    print(f"of 4 imports at once, {sum(one.get(timeout=30) == 'imported' for one in imports)} ran")
