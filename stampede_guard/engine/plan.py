"""A plan: what the guard knows about one cached function. It is made once, at decoration."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stampede_guard.core.caller import seconds_to_wait
from stampede_guard.engine.verdict import NO_CHOICE, Choice
from stampede_guard.errors import PolicyError
from stampede_guard.policy import Mode, Policy
from stampede_guard.values.codec import Codec, is_immutable
from stampede_guard.values.codec.copies import Copies, copier
from stampede_guard.values.codec.typed import PickleCodec

if TYPE_CHECKING:
    from stampede_guard.engine.loops.runtime import Runtime

__all__ = ["UNSETTLED", "Plan", "Run", "Standing", "Variables", "refuse_early"]

Run = Callable[[], Awaitable[Any]]
"""Computes the value: the user's function with its arguments filled in."""

Variables = tuple[tuple[contextvars.ContextVar[Any], Any], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """A plan's mode according to `said`, and the share of its keys. With `shortest`, a hit may take the short path.

    Each call compares `said`, by identity, with the newest settings of the guard. So an unchanged mode needs no lookup.
    """

    said: object
    mode: Mode
    sample: float = 1.0
    shortest: bool = False


UNSETTLED = Standing(None, "off")


@dataclass(slots=True, weakref_slot=True)
class Plan:
    """One cached function, as the engine sees it.

    With `request_bound`, the computation uses objects of its caller's request, so it runs within that request. It sees
    the ContextVars in `variables`; all others are unset. A `mode` of None means the guard's. With `in_thread`, a plain
    function computes. It cannot be cancelled, so no code waits until it gives way. With `batched`, several flights
    share a computation, which takes its own slot while the store is away. For a value just computed, `policy_for`
    returns the policy with its lifetimes, or None if it must not be stored. A flight calls `on_wait` when the lease
    of its entry is held elsewhere. With `direct`, a fresh value only needs decoding, so a hit may take the shortest
    path. With `early`, a reader of a fresh value may refresh it.

    A value that must not be stored goes to all its waiters in this process if `share_uncached` is True. Otherwise it
    may be private to its caller, so each waiter computes for itself, at once and beside the others. With `personal`,
    the computation may depend on its caller: a 401 or 403 does not hold for other callers of the entry.
    """

    title: str
    policy: Policy
    codec: Codec
    request_bound: bool = False
    variables: tuple[contextvars.ContextVar[Any], ...] = ()
    mode: Mode | None = None
    in_thread: bool = False
    batched: bool = False
    direct: bool = True
    early: bool = field(init=False)
    on_wait: Callable[[Runtime, str], None] | None = None
    choice: Choice = NO_CHOICE
    share_uncached: bool = True
    personal: bool = True
    warned: set[str] = field(default_factory=set)
    standing: Standing = UNSETTLED
    decode: Callable[[bytes], Any] = field(init=False)
    """The method of the codec, bound once."""
    l1: bool = field(init=False)
    """Whether this process may keep values in L1."""
    policy_for: Callable[[Any], Policy | None] = field(init=False)
    patience: float = field(init=False)
    """Seconds that a caller waits for another call's outcome."""
    share: bool = field(init=False)
    """Whether all callers of this plan accept the same object. Callers of another plan have not agreed to that."""
    _copies: Copies | None = field(init=False, default=None)
    _pickles: bool = field(init=False)

    def __post_init__(self) -> None:
        self.decode = self.codec.decode
        codec: Any = self.codec
        while hasattr(codec, "inner"):
            codec = codec.inner
        self._pickles = isinstance(codec, PickleCodec)
        self.l1 = self.policy.l1_ttl > 0
        self.share = self.policy.share
        self.patience = seconds_to_wait("value", self.policy)
        self.policy_for = lambda value: self.choice.policy_for(value, self.policy, self.title)
        self.early = self.policy.early_beta > 0 and not self.request_bound
        self.direct = self.direct and not self.early

    def copies(self, body: bytes, *, shared: bool = False) -> Copies:
        """Copies for all callers that get the value of these bytes now. With `shared`, all get the same object."""
        return Copies(self.decode, body, trees=not self._pickles, shared=shared)

    def another(self, body: bytes) -> Any:
        """A value for one more caller of the same reading. Raises `Undecodable`."""
        copies = self._copies
        if copies is None or copies.body is not body:
            self._copies = copies = self.copies(body, shared=self.share)
            # Other callers of this reading come in this turn of the event loop, and none later.
            asyncio.get_running_loop().call_soon(self._forget_copies)
        copy = copies.copy
        return copies.another() if copy is None else copy(copies.template)

    def _forget_copies(self) -> None:
        self._copies = None

    def for_many(self, body: bytes) -> tuple[Any, Callable[[Any], Any] | None]:
        """What to keep for later callers, and how to make each one its own value. None: the value is immutable."""
        value = self.decode(body)
        if self.is_immutable(value):
            return value, None
        copy = None if self._pickles else copier(value)
        return (body, self.decode) if copy is None else (value, copy)

    def capture(self) -> Variables:
        """The caller's values of the named variables."""
        if not self.variables:
            return ()
        return tuple(
            (variable, value) for variable in self.variables if (value := variable.get(_UNSET)) is not _UNSET
        )

    def is_immutable(self, value: Any) -> bool:
        """Whether all callers may get this object itself, also without `share=True`."""
        # The declared type alone proves nothing: a validator may have made another object of the value.
        return self.codec.shareable is not False and is_immutable(value)

    def clean_context(self, variables: Variables) -> contextvars.Context:
        """An empty context with only these variables: other callers must not see one caller's tenant or locale."""
        context = contextvars.Context()
        for variable, value in variables:
            context.run(variable.set, value)
        return context


_UNSET: Any = object()


def refuse_early(fields: Mapping[str, Any], *, request_bound: bool) -> None:
    """Raises `PolicyError` if a computation is bound to its caller's request and `fields` give it an `early_beta`.

    An `early_beta` from the guard's policy, given to all functions, is ignored there.
    """
    beta = fields.get("early_beta")
    if beta and request_bound:
        raise PolicyError(
            "early_beta",
            beta,
            "a computation bound to its caller's request cannot go on in the background; open what it needs with "
            "resources= instead of taking it from the request",
        )
