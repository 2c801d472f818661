"""`celery -A tests.integrations.tasks.celery_app worker`."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from celery import Celery
from celery.signals import worker_process_shutdown

from tests.integrations.tasks import work


@worker_process_shutdown.connect(weak=False)
def leaving(**_: Any) -> None:
    """Connected first, so it comes before what the integration does."""
    work.bell.ring("leaving", os.getpid())


import stampede_guard.integrations.celery  # noqa: E402, F401 - its receivers are connected

app = Celery("tasks", broker=work.URL)
app.conf.task_default_queue = f"{work.NAMESPACE}-celery"
app.conf.task_ignore_result = True
# Each process takes as many tasks as it can run at once, so that each has its share of a herd.
app.conf.task_acks_late = True
app.conf.worker_prefetch_multiplier = 1

app.task(name="report")(work.report)
app.task(name="exclusive")(work.exclusive)
app.task(name="look")(work.look)


@app.task(name="areport")
def areport(key: str) -> None:
    asyncio.run(work.areport(key))
