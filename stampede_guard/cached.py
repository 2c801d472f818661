"""What a decorated function looks like to its users."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, Self, TypeVar, overload

from stampede_guard.policy import Mode

__all__ = [
    "CacheDecorator",
    "CachedFunction",
    "CachedPlainFunction",
    "CachedMany",
    "Invalidation",
    "ManyDecorator",
]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

Invalidation = Literal["done", "pending"]
"""`pending`: the store is away, or takes no writes for now (a read-only replica, one that loads, a full disk). This
process's own copies are dropped, and it reads nothing of the entry from the store until the store has been told, which
it does by itself when it can; only a process that ends before that leaves it undone, and logs so."""


class CachedFunction(Protocol[P, R_co]):
    """A decorated coroutine function: called as before; the other methods take the same arguments as the call."""

    __wrapped__: Callable[..., Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]: ...

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(
        self: CachedFunction[Concatenate[T, Q], R], instance: T, owner: type | None = None
    ) -> CachedFunction[Q, R]: ...

    async def invalidate(self, *args: P.args, **kwargs: P.kwargs) -> Invalidation:
        """After `"done"` no caller is served an older value. `"pending"`: the store is away; see `Invalidation`.

        Copies that other processes keep (`l1_ttl`) go within a wake-up; without one they are good for `l1_ttl` at most.
        Raises `StoreRefused` when the store does not let this client (a permission, a password): it is not done.
        """

    async def refresh(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Compute anew; callers meanwhile are served the old value.

        A computation that began before this call, here or elsewhere, is no answer to it: its data may be older.
        """

    def key(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The key of this call, with the namespace."""

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Mapping[str, str]:
        """What the key of this call is made of, for an operator: it shows the raw values."""

    def set_mode(self, mode: Mode | None) -> None:
        """The mode of this function from now on; None = the guard's."""


class CachedPlainFunction(Protocol[P, R_co]):
    """A decorated plain function: the same as `CachedFunction`, and nothing is awaited."""

    __wrapped__: Callable[..., Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(
        self: CachedPlainFunction[Concatenate[T, Q], R], instance: T, owner: type | None = None
    ) -> CachedPlainFunction[Q, R]: ...

    def invalidate(self, *args: P.args, **kwargs: P.kwargs) -> Invalidation: ...

    def refresh(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def key(self, *args: P.args, **kwargs: P.kwargs) -> str: ...

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Mapping[str, str]: ...

    def set_mode(self, mode: Mode | None) -> None: ...


class CacheDecorator(Protocol):
    """`async def` stays `async def`, `def` stays `def`."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a coroutine is a result, too: the first that fits is meant
        self, function: Callable[P, Coroutine[Any, Any, R]]
    ) -> CachedFunction[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R]) -> CachedPlainFunction[P, R]: ...


class CachedMany(Protocol[P, K, V]):
    """A decorated function of many ids. The other methods take the same arguments as the call, ids included."""

    __wrapped__: Callable[..., Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, dict[K, V]]: ...

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(
        self: CachedMany[Concatenate[T, Q], K, V], instance: T, owner: type | None = None
    ) -> CachedMany[Q, K, V]: ...

    async def invalidate(self, *args: P.args, **kwargs: P.kwargs) -> Invalidation:
        """Drop the entries of these ids; `"pending"` if that is so for one of them. See `CachedFunction`."""

    async def refresh(self, *args: P.args, **kwargs: P.kwargs) -> dict[K, V]:
        """Compute these ids anew."""

    def keys(self, *args: P.args, **kwargs: P.kwargs) -> dict[K, str]:
        """The key of each id, with the namespace."""

    def set_mode(self, mode: Mode | None) -> None:
        """The mode of this function from now on; None = the guard's."""


class ManyDecorator(Protocol):
    def __call__(self, function: Callable[P, Coroutine[Any, Any, dict[K, V]]]) -> CachedMany[P, K, V]: ...
