"""`python -m tests.integrations.tasks.arq_workers N`: the work is imported once, then each worker is forked."""

from __future__ import annotations

import os
import sys
from typing import Any

from arq.connections import RedisSettings
from arq.worker import create_worker

from tests.integrations.tasks import work


async def report(_ctx: Any, key: str) -> None:
    await work.areport(key)


async def exclusive(_ctx: Any) -> None:
    await work.aexclusive()


class Settings:
    functions = (report, exclusive)
    redis_settings = RedisSettings.from_dsn(work.URL)
    queue_name = f"{work.NAMESPACE}-arq"
    max_jobs = 1  # so that each worker gets a task
    poll_delay = 0.02


if __name__ == "__main__":
    for _ in range(int(sys.argv[1]) - 1):
        if os.fork() == 0:
            break
    create_worker(Settings).run()  # type: ignore[arg-type]
