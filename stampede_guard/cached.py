"""What a decorated function looks like to its users."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Literal, ParamSpec, Protocol, TypeVar

from stampede_guard.policy import Mode

__all__ = ["CachedFunction", "Invalidation"]

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

Invalidation = Literal["done", "pending"]
"""`pending`: the store is away; local copies are dropped, and the store is told when it is back."""


class CachedFunction(Protocol[P, R_co]):
    """A decorated function: called as before; the other methods take the same arguments as the call."""

    __wrapped__: Callable[..., Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]: ...

    async def invalidate(self, *args: P.args, **kwargs: P.kwargs) -> Invalidation:
        """After `"done"` no caller is served an older value. `"pending"`: the store is away; see `Invalidation`."""

    async def refresh(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Compute anew, once fleet-wide; callers meanwhile are served the old value."""

    def key(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The key of this call, with the namespace."""

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Mapping[str, str]:
        """What the key of this call is made of, for an operator: it shows the raw values."""

    def set_mode(self, mode: Mode | None) -> None:
        """The mode of this function from now on; None = the guard's."""
