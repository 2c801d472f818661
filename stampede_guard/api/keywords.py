"""The options of every face, each written once: type checkers and editors read these classes.

A face takes them as `**options: Unpack[...]`. Its docstring has their meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypedDict

from stampede_guard.durations import Duration
from stampede_guard.engine.verdict import Ttl
from stampede_guard.errors import Misuse
from stampede_guard.options import nearest
from stampede_guard.policy import Limits, Policy, PolicyFields

if TYPE_CHECKING:
    from stampede_guard.events import Hook
    from stampede_guard.values.encryption import Encryption

__all__ = [
    "OWN_OF_GUARDS",
    "OWN_OF_VALUES",
    "CacheOptions",
    "FunctionOptions",
    "GuardOptions",
    "LookOptions",
    "ManyOptions",
    "Resources",
    "SetOptions",
    "ValueOptions",
    "check_options",
]

Resources = Mapping[str, Callable[..., Any]]


class GuardOptions(TypedDict, total=False):
    """Options of `StampedeGuard(...)` and `StampedeGuard.from_url(...)`."""

    namespace: str
    policy: Policy | None
    limits: Limits | None
    hooks: Iterable[Hook]
    encryption: Encryption | None
    stats: bool | None


class ValueOptions(PolicyFields, total=False):
    """Options of `guard.get_or_compute` and `guard.single`."""

    ttl: Ttl
    should_cache: Callable[[Any], object] | None
    tags: Iterable[str]
    name: str | None


class SetOptions(PolicyFields, total=False):
    """Options of `guard.set`."""

    ttl: Duration
    tags: Iterable[str]
    name: str | None


class LookOptions(TypedDict, total=False):
    """Options of `guard.get`."""

    tags: Iterable[str]
    name: str | None
    l1_ttl: Duration
    share: bool


class FunctionOptions(ValueOptions, total=False):
    """Options of `locked_cache` and `cached_many`. They take `resources` as well, which change a result's type."""

    key: Callable[..., Any] | str | None
    unkeyed: Iterable[str]
    context: Sequence[ContextVar[Any]]
    version: str | int
    pickle: bool
    secret: Iterable[str]


class CacheOptions(FunctionOptions, total=False):
    """Options of `locked_cache`."""

    in_thread: bool


class ManyOptions(FunctionOptions, total=False):
    """Options of `cached_many`."""

    ids: str | None
    absent_ttl: Duration | None
    max_ids: int


OWN_OF_GUARDS = ("namespace", "policy", "limits", "encryption")
"""Options of a guard whose types the guard checks itself."""
OWN_OF_VALUES = (
    *PolicyFields.__annotations__,
    "ttl",
    "should_cache",
    "tags",
    "name",
    "key",
    "context",
)
"""Options of values and functions whose types are checked where they are used."""


def check_options(options: Mapping[str, Any], known: Iterable[str] = GuardOptions.__annotations__) -> None:
    """Raise `Misuse` for names of fields of a policy or of limits, also misspelt ones. The error names their place."""
    fields: dict[str, str] = dict.fromkeys(Limits.__dataclass_fields__, "limits=Limits")
    fields |= dict.fromkeys(Policy.__dataclass_fields__, "policy=Policy")
    for name in options:
        near = nearest(name, fields)
        if near is not None and nearest(name, known) is None:
            hint = "" if near == name else f" (do you mean {near}?)"
            raise Misuse(f"StampedeGuard has no {name}{hint}: write {fields[near]}({near}=...)")
