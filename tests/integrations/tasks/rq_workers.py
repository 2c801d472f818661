"""`python -m tests.integrations.tasks.rq_workers N`: the work is imported once, then each worker is forked."""

from __future__ import annotations

import os
import sys

import redis
import rq

from stampede_guard.integrations.rq import DrainingWorker
from tests.integrations.tasks import work


def serve() -> None:
    connection = redis.Redis.from_url(work.URL)
    queue = rq.Queue(f"{work.NAMESPACE}-rq", connection=connection)
    DrainingWorker([queue], connection=connection).work()


if __name__ == "__main__":
    for _ in range(int(sys.argv[1]) - 1):
        if os.fork() == 0:
            break
    serve()
