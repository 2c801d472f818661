"""Celery: each tick of `celery beat` once, and tasks that never run twice at a time.

    @app.task
    @once_per_slot(jobs)
    def nightly(): ...

    @app.task
    @exclusive(leases, "import:{repository}")
    def import_all(repository): ...

**Slots.** Two `celery beat` processes send two messages per tick. Each beat puts the slot into its message: the
scheduled time of the tick, computed from the schedule and not from the moment of sending. The worker that gets the
first message claims the slot in the back end of the jobs. All other messages of the slot find it taken, also a message
that the broker delivers a second time. So beat needs no lock, and no beat waits for another one.

**Where the function runs.** In the thread of the task, as without the decorator: it sees Celery's current task, and
the connections of a framework. The leases are renewed on the event loop of plain functions. If the process dies, its
connections close, and the lease of its run goes to another worker within seconds.

**Imports.** Receivers of Celery's signals put slots into messages. So the beat process must import this package. It
does if it imports the tasks, as `celery -A app beat` does.
"""

from __future__ import annotations

from stampede_guard.engine.threads.portal import refuse_eventlet
from stampede_guard.integrations.celery.receivers import connect
from stampede_guard.integrations.celery.runs import exclusive
from stampede_guard.integrations.celery.slots import once_per_slot

__all__ = ["exclusive", "once_per_slot"]

refuse_eventlet()
connect()
