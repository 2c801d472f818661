"""Events: what happens in a guard, as frozen objects that every hook receives.

    def hook(event: Event) -> None: ...
    guard = StampedeGuard.from_url("redis://...", hooks=(hook,))

A hook is called in the event loop, at once. So it must be short and must not block. If it raises, the error is logged
once and harms no caller. For `Hit`, `Stale`, `Miss`, `Waited`, `Refreshed` and `Invalidated`, a hook runs in the
context of the caller, whose trace is then the current one. For `Started` it runs in the context of the computation. For
the other events the context is not defined.

A hook that traces may also have a method `traceparent(flight: str) -> str | None`. It returns the W3C traceparent of
this flight's computation (version 00, 55 characters). It travels with the wake-up to the processes that wait, which
give it to their hooks in `Waited.trace`. Anything else is ignored.

`docs/reference.md` has the table of all events. It is written from the classes here: the last line of a class's
docstring says how often the event comes.

Two fields are in every event about an entry. `function` is its name in logs and metrics: a function's name; the `name=`
of a `get_or_compute` or `single`, or just `get_or_compute`; the name of an election, a job or an exclusive function, or
just `hold`. It never contains a part of a key or a name made at run time. `entry` is the complete name. It contains
values of parameters, so it is for operators. Never use it as a label of a metric or write it to a log.
"""

from __future__ import annotations

from typing import Protocol

from stampede_guard.events import calls, jobs, leases, stores
from stampede_guard.events.calls import *
from stampede_guard.events.jobs import *
from stampede_guard.events.leases import *
from stampede_guard.events.stores import *

__all__ = ["Event", "Hook"]
__all__ += calls.__all__
__all__ += jobs.__all__
__all__ += leases.__all__
__all__ += stores.__all__

Event = CallEvent | StoreEvent | LeaseEvent | JobEvent


class Hook(Protocol):
    """Anything that can be called with an event."""

    def __call__(self, event: Event, /) -> object: ...
