"""The types of decorated functions, as users see them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, Self, TypeVar, overload

from stampede_guard.api.keywords import Resources
from stampede_guard.api.results import CallInfo, Missing
from stampede_guard.engine.engine import Invalidation, Stored
from stampede_guard.policy import Mode

__all__ = [
    "CacheDecorator",
    "CachedFunction",
    "CachedPlainFunction",
    "CachedMany",
    "Opened",
    "Invalidation",
    "ManyDecorator",
    "NO_RESOURCES",
]

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
K = TypeVar("K")
V = TypeVar("V")

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    Opened = TypeVarWithDefault("Opened", bound=Resources | None, default=None)
    Opened_co = TypeVarWithDefault("Opened_co", bound=Resources | None, default=None, covariant=True)
else:  # Python 3.13 is the first with defaults; type checkers know them for all versions
    Opened = TypeVar("Opened", bound=Resources | None)
    Opened_co = TypeVar("Opened_co", covariant=True)

NO_RESOURCES: Final[Any] = None
"""The default of `resources=`. Its type fits every `Opened`."""


class _Method(Protocol[T_contra, Q, R_co]):
    """A function whose first parameter is `self`."""

    def __call__(self, instance: T_contra, /, *args: Q.args, **kwargs: Q.kwargs) -> R_co: ...


class CachedFunction(Protocol[P, R_co]):
    """A decorated coroutine function, called as before. The other methods take the same arguments as the call."""

    __wrapped__: Callable[..., Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]: ...

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(
        self: _Method[T, Q, Coroutine[Any, Any, R]], instance: T, owner: type | None = None
    ) -> CachedFunction[Q, R]: ...

    async def invalidate(self, *args: P.args, **kwargs: P.kwargs) -> Invalidation:
        """After `"done"`, no caller gets an older value. With `"pending"`, the store is away: see `Invalidation`.

        Other processes drop their own copies at a wake-up, or after `l1_ttl` seconds if they miss it.
        Raises `StoreRefused` if the store denies access to this client (a permission, a password). Nothing is
        invalidated then.
        """

    async def refresh(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Compute again. Until then, callers get the old value.

        This call does not use a computation that began before it, in any process, because its data may be older.
        """

    async def with_info(self, *args: P.args, **kwargs: P.kwargs) -> CallInfo[R_co]:
        """The same call. Its result holds the `value`, its `source` and its `age` in seconds: see `CallInfo`."""

    async def peek(self, *args: P.args, **kwargs: P.kwargs) -> R_co | Missing:
        """The fresh value, or `MISSING`: then a call would compute, or wait for a computation.

        It never computes and takes no lease: one read, or none with a copy in this process. A stale value counts as
        missing. In a mode other than `on`, every value does.
        """

    async def set(self, value: Any, /, *args: P.args, **kwargs: P.kwargs) -> Stored:
        """Store a value that the program has already for the call with these arguments: see `guard.set`.

        The value comes first: `await quality.set(Quality(7, 81), 7)`. Its lifetimes and tags are the function's. Raises
        `UnsupportedValue` for a value that does not fit the declared type, and `StoreRefused` as `invalidate` does.
        """

    def key(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """The key of this call, with the namespace."""

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Mapping[str, str]:
        """The parts of the key of this call. Only for operators, because it shows the raw values."""

    def set_mode(self, mode: Mode | None) -> None:
        """Set the mode of this function; None means the guard's."""


class CachedPlainFunction(Protocol[P, R_co]):
    """A decorated plain function: the same as `CachedFunction`, without `await`."""

    __wrapped__: Callable[..., Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(
        self: _Method[T, Q, R], instance: T, owner: type | None = None
    ) -> CachedPlainFunction[Q, R]: ...

    def invalidate(self, *args: P.args, **kwargs: P.kwargs) -> Invalidation: ...

    def refresh(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    def with_info(self, *args: P.args, **kwargs: P.kwargs) -> CallInfo[R_co]: ...

    def peek(self, *args: P.args, **kwargs: P.kwargs) -> R_co | Missing: ...

    def set(self, value: Any, /, *args: P.args, **kwargs: P.kwargs) -> Stored: ...

    def key(self, *args: P.args, **kwargs: P.kwargs) -> str: ...

    def explain(self, *args: P.args, **kwargs: P.kwargs) -> Mapping[str, str]: ...

    def set_mode(self, mode: Mode | None) -> None: ...


class CacheDecorator(Protocol[Opened_co]):
    """`async def` stays `async def`, `def` stays `def`.

    With `resources=`, callers do not pass all parameters. A type cannot remove parameters by name, so type checkers
    then check only results, and no arguments.
    """

    # A coroutine is a result, too: the first match counts.
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self: CacheDecorator[None], function: Callable[P, Coroutine[Any, Any, R]]
    ) -> CachedFunction[P, R]: ...

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self: CacheDecorator[None], function: Callable[P, R]
    ) -> CachedPlainFunction[P, R]: ...

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[..., Coroutine[Any, Any, R]]
    ) -> CachedFunction[..., R]: ...

    @overload
    def __call__(self, function: Callable[..., R]) -> CachedPlainFunction[..., R]: ...


class CachedMany(Protocol[P, K, V]):
    """A decorated function of many ids. The other methods take the same arguments as the call, ids included."""

    __wrapped__: Callable[..., Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, dict[K, V]]: ...

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(
        self: _Method[T, Q, Coroutine[Any, Any, dict[K, V]]], instance: T, owner: type | None = None
    ) -> CachedMany[Q, K, V]: ...

    async def invalidate(self, *args: P.args, **kwargs: P.kwargs) -> Invalidation:
        """Drop the entries of these ids. Returns `"pending"` if one of them is pending. See `CachedFunction`."""

    async def refresh(self, *args: P.args, **kwargs: P.kwargs) -> dict[K, V]:
        """Compute these ids again."""

    def keys(self, *args: P.args, **kwargs: P.kwargs) -> dict[K, str]:
        """The key of each id, with the namespace."""

    def set_mode(self, mode: Mode | None) -> None:
        """Set the mode of this function; None means the guard's."""


class ManyDecorator(Protocol[Opened_co]):
    """The same for functions of many ids."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self: ManyDecorator[None], function: Callable[P, Coroutine[Any, Any, dict[K, V]]]
    ) -> CachedMany[P, K, V]: ...

    @overload
    def __call__(self, function: Callable[..., Coroutine[Any, Any, dict[K, V]]]) -> CachedMany[..., K, V]: ...
