"""The application of the beats and workers that tests start: `celery -A tests.integrations.celery.programs`."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery, Task, signals
from celery.exceptions import Ignore, Reject
from celery_once import QueueOnce  # type: ignore[import-untyped]

from stampede_guard.integrations.celery import exclusive, once_per_slot
from stampede_guard.jobs import Jobs, current_run
from stampede_guard.leases import RedisLeases
from tests.integrations.tasks.bell import Bell

__all__ = ["made"]


def made(url: str, namespace: str) -> Celery:
    app = Celery("programs", broker=url, set_as_current=False)
    app.conf.update(
        task_default_queue=f"{namespace}-celery",
        task_ignore_result=True,
        beat_schedule={"tick": {"task": "tick", "schedule": 0.4}},
        redbeat_redis_url=url,
        redbeat_key_prefix=f"{namespace}-redbeat:",
        ONCE={"backend": "celery_once.backends.Redis", "settings": {"url": url}},
    )
    bell = Bell(url, namespace)
    leases = RedisLeases.from_url(url, namespace=namespace, restart="trust")
    jobs = Jobs(leases)

    @app.task(name="tick", shared=False)
    @once_per_slot(jobs)
    def tick() -> None:
        run = current_run()
        assert run is not None
        bell.ring("ran", run.slot.timestamp())

    class Refused:
        """`before_start` raises what the sender of the message names, before the function runs."""

        def before_start(self: Any, _id: str, _args: Any, _kwargs: Any) -> None:
            if (how := getattr(self.request, "refused", None)) is not None:
                bell.ring("refused", self.name)
                raise {"ignored": Ignore, "rejected": Reject}[how]

    class TheirTask(Refused, QueueOnce):  # type: ignore[misc]
        abstract = True

    class OurTask(Refused, Task):  # type: ignore[misc]
        abstract = True

    @app.task(name="theirs", base=TheirTask, shared=False)
    def theirs(name: str) -> None:
        bell.ring("theirs", os.getpid())
        bell.hold(name)

    @app.task(name="ours", base=OurTask, shared=False)
    @exclusive(leases, "import:{name}", overlap="queue", lease_ttl=1.0)
    def ours(name: str) -> None:
        bell.ring("ours", os.getpid())
        bell.hold(name)

    @signals.beat_init.connect(weak=False)
    def begin(**_: Any) -> None:
        signals.after_task_publish.connect(lambda **_: bell.ring("sent", os.getpid()), weak=False)

    return app


if "PROGRAMS_URL" in os.environ:
    app = made(os.environ["PROGRAMS_URL"], os.environ["PROGRAMS_NAMESPACE"])
