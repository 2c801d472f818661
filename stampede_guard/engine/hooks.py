"""The hooks of a guard, called one after the other."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable

from stampede_guard.errors import Misuse
from stampede_guard.events import Event, Hook

__all__ = ["Hooks"]

log = logging.getLogger("stampede_guard")


class Hooks:
    """True if there are any hooks. Check this before you make an event: without hooks, no event is needed.

    `any` has the same value. On the hit path, reading an attribute takes less time than `bool()`.

    `logs_herds`: one of the hooks writes a line for each herd (it has `logs_herds = True`). The guard then writes none.
    """

    def __init__(self, hooks: Iterable[Hook] = ()) -> None:
        self.any = False
        self.logs_herds = False
        self._hooks: tuple[Hook, ...] = ()
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
        self._hooks = (*self._hooks, hook)
        self.any = True
        self.logs_herds = self.logs_herds or getattr(hook, "logs_herds", False) is True

    def remove(self, hook: Hook) -> None:
        """Call this hook no longer. It may receive events that are being told at this moment."""
        self._hooks = tuple(other for other in self._hooks if other is not hook)
        self.any = bool(self._hooks)
        self.logs_herds = any(getattr(other, "logs_herds", False) is True for other in self._hooks)

    def tell(self, event: Event) -> None:
        """Call every hook. Never raises: an observer's error must not change the call that it observes."""
        for hook in self._hooks:
            try:
                hook(event)
            # Also a CancelledError (of a future that the hook looked at). The flight could not distinguish it from its
            # own cancellation, and would end. Also SystemExit: it would end the flight's event loop.
            except BaseException:
                if id(hook) not in self._failed:
                    self._failed.add(id(hook))
                    log.exception("a hook failed for %s; it is not reported again", type(event).__name__)
