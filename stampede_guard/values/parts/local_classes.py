"""Classes that no text distinguishes, although `isinstance` does."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

from stampede_guard.values.parts.classes import Unkeyable, class_name, forget_definitions, is_local, noted
from stampede_guard.values.parts.parts import forget_classes

__all__ = ["LocalClasses"]


class LocalClasses:
    """The classes with ambiguous names that one cached function was called with, by name.

    `isinstance` distinguishes two classes with the same name and definition, but no text does. So the second one
    that is alive at the same time is refused.
    """

    def __init__(self) -> None:
        self._known: dict[str, weakref.ref[type]] = {}

    def check(self, write: Callable[[], str]) -> None:
        """Check the classes in whatever `write` turns into text. Raises `Unkeyable`."""
        with noted() as kinds:
            write()
        for kind in kinds:
            name = class_name(kind)
            known = self._known.get(name)
            other = known() if known is not None else None
            if other is not None and other is not kind:
                other = None
                _collect()
                other = known() if known is not None else None
                if other is not None and other is not kind:
                    raise Unkeyable(
                        kind,
                        "another class of this name was made in the same way, inside the same function: define it at "
                        "the top of a module, under a name of its own"
                        if is_local(kind)
                        else "its module has another class of this name: give each of them a name of its own, and keep "
                        "it in the module under that name",
                    )
            if len(self._known) > 1000:
                self._known.clear()
            self._known[name] = weakref.ref(kind)


def _collect() -> None:
    # A class refers to itself, so an unused one stays alive until the next collection.
    forget_definitions()
    forget_classes()
    gc.collect()
