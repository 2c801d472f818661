"""The hooks of a guard, called one after the other."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping

from stampede_guard.core.asks import traceparent
from stampede_guard.errors import Misuse
from stampede_guard.events import Event, Hook

__all__ = ["Hooks", "Steps"]

log = logging.getLogger("stampede_guard")

Steps = Callable[[str, str, str, Mapping[str, object]], None]


class Hooks:
    """True if there are any hooks. Check this before you make an event: without hooks, no event is needed.

    `any` has the same value. On the hit path, reading an attribute takes less time than `bool()`.

    `logs_herds`: one of the hooks writes a line for each herd (it has `logs_herds = True`). The guard then writes none.

    `steps(kind, function, entry, details)`: the steps of flights, while a viewer of the fleet is open. None otherwise.

    A hook may have a method `traceparent(flight)`. `traceparent_of` calls it when this process publishes an outcome.
    """

    steps: Steps | None = None

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        self.any = False
        self.logs_herds = False
        self._hooks: tuple[Hook, ...] = ()
        self._tracers: tuple[Callable[[str], object], ...] = ()
        self._failed: set[int] = set()
        for hook in hooks:
            self.add(hook)

    def __bool__(self) -> bool:
        return self.any

    def add(self, hook: Hook) -> None:
        """Raises `Misuse` for an object that is not callable, for a class, and for a coroutine function."""
        if not callable(hook):
            raise Misuse(
                f"a hook is called with each event: give a function or an object with __call__, not a "
                f"{type(hook).__name__}"
            )
        if isinstance(hook, type):
            raise Misuse(f"a hook is an object, not a class: write hooks=({hook.__name__}(),)")
        if inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(type(hook).__call__):
            raise Misuse(
                "a hook is called and not awaited: give a plain function, which may put the event into a queue"
            )
        self._set((*self._hooks, hook))

    def remove(self, hook: Hook) -> None:
        """Call this hook no longer. It may receive events that are being told at this moment."""
        self._set(tuple(other for other in self._hooks if other is not hook))

    def _set(self, hooks: tuple[Hook, ...]) -> None:
        self._hooks = hooks
        self.any = bool(hooks)
        self.logs_herds = any(getattr(hook, "logs_herds", False) is True for hook in hooks)
        found = (getattr(hook, "traceparent", None) for hook in hooks)
        self._tracers = tuple(tracer for tracer in found if callable(tracer))

    def traceparent_of(self, flight: str) -> str:
        """The W3C traceparent of this flight's computation, from the first hook that has one. Empty without."""
        for tracer in self._tracers:
            try:
                if found := traceparent(tracer(flight)):
                    return found
            except BaseException:
                self._report(tracer, "traceparent")
        return ""

    def tell(self, event: Event) -> None:
        """Call every hook. Never raises: an observer's error must not change the call that it observes."""
        for hook in self._hooks:
            try:
                hook(event)
            # Also a CancelledError (of a future that the hook looked at). The flight could not distinguish it from its
            # own cancellation, and would end. Also SystemExit: it would end the flight's event loop.
            except BaseException:
                self._report(hook, type(event).__name__)

    def _report(self, hook: object, what: str) -> None:
        if id(hook) not in self._failed:
            self._failed.add(id(hook))
            log.exception("a hook failed for %s; it is not reported again", what)
