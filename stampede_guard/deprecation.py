"""Marks public names that will go away. docs/upgrading.md says for how long they stay.

    @deprecated("guard.flush() is deprecated since 0.3 and goes in 0.5: write guard.invalidate_tag(...)")

The text names the version since when, the version in which it goes, and what to write instead: a test checks that.
Type checkers and editors read the mark as PEP 702 says. A call warns once per place, with `DeprecationWarning`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["deprecated"]

if TYPE_CHECKING:
    from typing_extensions import deprecated
else:
    T = TypeVar("T", bound=Callable[..., Any])

    def deprecated(message: str) -> Callable[[T], T]:
        """A call of the function, or of the class, warns with this text."""

        def mark(one: T) -> T:
            if isinstance(one, type):
                _warn_when_made(one, message)
                return one

            @functools.wraps(one)
            def call(*args: Any, **kwargs: Any) -> Any:
                warnings.warn(message, DeprecationWarning, stacklevel=2)
                return one(*args, **kwargs)

            call.__deprecated__ = message
            return call

        return mark

    def _warn_when_made(kind: type, message: str) -> None:
        made = kind.__init__

        @functools.wraps(made)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            if type(self) is kind:  # a subclass that calls this one is no news to its user
                warnings.warn(message, DeprecationWarning, stacklevel=2)
            made(self, *args, **kwargs)

        kind.__init__ = init
        kind.__deprecated__ = message
