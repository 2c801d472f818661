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
    """True when there are any: whoever would tell an event asks that first, so that nothing is made for nobody.

    `any` says the same. On the hit path an attribute is read in less time than `bool()` takes. `logs_herds`: one of
    them writes a line for each herd (it has `logs_herds = True`), so that the guard's own logger need not.
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
        """Raises `Misuse` for what cannot be called, and for what would have to be awaited."""
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

    def tell(self, event: Event) -> None:
        """Never raises: what is observed must not depend on who observes it."""
        for hook in self._hooks:
            try:
                hook(event)
            # A CancelledError too (of a future that the hook looked at): it would end the flight that tells, which
            # could not know it from its own. And SystemExit, which would end the flight's event loop with it.
            except BaseException:
                if id(hook) not in self._failed:
                    self._failed.add(id(hook))
                    log.exception("a hook failed for %s; it is not reported again", type(event).__name__)
