"""An application of Celery with beats and a worker in this process. Messages go through kombu's memory transport."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from celery import Celery, beat, signals
from celery.app.trace import build_tracer

from stampede_guard.jobs import Jobs
from stampede_guard.leases import MemoryLeases
from stampede_guard.leases.memory import LeaseRows

__all__ = ["Shop"]


class Shop:
    def __init__(self) -> None:
        self.app = Celery("shop", broker="memory://", set_as_current=False)
        self.app.conf.task_default_queue = f"{uuid.uuid4()}"
        self.leases = MemoryLeases(namespace="shop", rows=LeaseRows())
        self.jobs = Jobs(self.leases)

    def task(self, function: Callable[..., Any], **options: Any) -> Any:
        # Otherwise Celery gives it to all later applications of the process, too.
        return self.app.task(name=function.__name__, shared=False, **options)(function)

    def schedule(self, **entries: Any) -> None:
        """`nightly=crontab(...)`: an entry of that name for the task of that name."""
        self.app.conf.beat_schedule = {
            name: due if isinstance(due, dict) else {"task": name, "schedule": due}
            for name, due in entries.items()
        }

    def beat(self, scheduler: Any = beat.Scheduler) -> Any:
        """The scheduler of a beat that has just started."""
        service = beat.Service(self.app, scheduler_cls=scheduler)
        made = service.scheduler
        made.update_from_dict(self.app.conf.beat_schedule)
        signals.beat_init.send(sender=service)
        return made

    def sent(self) -> list[Any]:
        """The messages that no worker has taken."""
        found = []
        with self.app.connection_for_read() as connection:
            queue = connection.SimpleQueue(self.app.conf.task_default_queue)
            while queue.qsize():
                message = queue.get(block=False)
                message.ack()
                found.append(message)
            queue.close()
        return found

    def perform(self, message: Any) -> Any:
        """As a worker: the result of the task. What Celery keeps of an error is in `.state` and `.retval`."""
        args, kwargs, _ = message.payload
        task = self.app.tasks[message.headers["task"]]
        request = {**message.headers, "delivery_info": {}, "hostname": "here", "is_eager": False}
        done = build_tracer(task.name, task, app=self.app)(message.headers["id"], args, kwargs, request)
        return done.info if done.info is not None else done.retval
