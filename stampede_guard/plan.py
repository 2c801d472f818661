"""A plan: what the guard knows of one cached function. Made once, at decoration."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stampede_guard.codec import Codec, is_immutable
from stampede_guard.codec.copies import Copies, copier
from stampede_guard.codec.typed import PickleCodec
from stampede_guard.policy import Mode, Policy
from stampede_guard.verdict import NO_CHOICE, Choice

if TYPE_CHECKING:
    from stampede_guard.runtime import Runtime

__all__ = ["UNSETTLED", "Plan", "Run", "Standing", "Variables"]

Run = Callable[[], Awaitable[Any]]
"""Computes the value: the user's function with its arguments filled in."""

Variables = tuple[tuple[contextvars.ContextVar[Any], Any], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """What mode a plan is in by what `said`, and for which share of its keys. `shortest`: a hit may take the short way.

    Compared by identity with what the guard has been told last, so an unchanged mode costs a call nothing to look up.
    """

    said: object
    mode: Mode
    sample: float = 1.0
    shortest: bool = False


UNSETTLED = Standing(None, "off")


@dataclass(slots=True)
class Plan:
    """`request_bound`: the computation uses things that belong to its caller's request, so it runs within it.

    `variables` are the ContextVars that a computation sees; all others are unset in it. `mode` None means the guard's.
    `in_thread`: the computation is a plain function's, which cannot be cancelled, so nobody waits for it to give way.
    `batched`: several flights share a computation, which takes its turn itself while the store is away. `policy_for` is
    the policy with the lifetimes of a value just computed, None if it may not be stored. `on_wait` is told of entries
    that are held elsewhere. `direct`: a fresh value that was read needs nothing but to be decoded, so the shortest way
    may be taken. `early`: a reader of a fresh value may be the one to refresh it. `share_uncached`: whether a value
    that may not be stored is for all who wait for it in this process; if not (it may be private to its caller), each
    of them computes for itself, at once and beside the others. `personal`: the computation may depend on its caller,
    so a 401 or 403 says nothing about other callers of the same entry.
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
    """The codec's, bound once."""
    near: bool = field(init=False)
    """Whether values may be kept ready in this process."""
    policy_for: Callable[[Any], Policy | None] = field(init=False)
    share: bool = field(init=False)
    """Whether this plan's callers have said that they may all have the same object. Those of another plan have not."""
    _copies: Copies | None = field(init=False, default=None)
    _pickles: bool = field(init=False)

    def __post_init__(self) -> None:
        self.decode = self.codec.decode
        codec: Any = self.codec
        while hasattr(codec, "inner"):
            codec = codec.inner
        self._pickles = isinstance(codec, PickleCodec)
        self.near = self.policy.l1_ttl > 0
        self.share = self.policy.share
        self.policy_for = lambda value: self.choice.policy_for(value, self.policy, self.title)
        self.early = self.policy.early_beta > 0 and not self.request_bound
        self.direct = self.direct and not self.early

    def copies(self, body: bytes, *, shared: bool = False) -> Copies:
        """For everybody who gets the value of these bytes now. `shared`: all get the same object."""
        return Copies(self.decode, body, trees=not self._pickles, shared=shared)

    def another(self, body: bytes) -> Any:
        """A value for one more caller of the same reading. Raises `Undecodable`."""
        copies = self._copies
        if copies is None or copies.body is not body:
            self._copies = copies = self.copies(body, shared=self.share)
            # The others of this reading come in this turn of the loop, and nobody after them.
            asyncio.get_running_loop().call_soon(self._forget_copies)
        copy = copies.copy
        return copies.another() if copy is None else copy(copies.template)

    def _forget_copies(self) -> None:
        self._copies = None

    def for_many(self, body: bytes) -> tuple[Any, Callable[[Any], Any] | None]:
        """What is kept for callers to come, and how each gets a value of its own; None: nobody can change it."""
        value = self.decode(body)
        if self.is_immutable(value):
            return value, None
        copy = None if self._pickles else copier(value)
        return (body, self.decode) if copy is None else (value, copy)

    def capture(self) -> Variables:
        """The caller's values of the named variables."""
        return tuple(
            (variable, value) for variable in self.variables if (value := variable.get(_UNSET)) is not _UNSET
        )

    def is_immutable(self, value: Any) -> bool:
        """Whether all callers may have this very object, whether they have said so or not."""
        # A type alone never proves it: a validator may have made something else of the value.
        return self.codec.shareable is not False and is_immutable(value)

    def clean_context(self, variables: Variables) -> contextvars.Context:
        """An empty context with only these set: a tenant or locale of one caller must not reach the others."""
        context = contextvars.Context()
        for variable, value in variables:
            context.run(variable.set, value)
        return context


_UNSET: Any = object()
