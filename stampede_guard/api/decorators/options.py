"""The options of a decorator that are not part of the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.engine.tags.templates import checked_tags
from stampede_guard.errors import Misuse
from stampede_guard.stores.switch import LONGEST_TITLE
from stampede_guard.values.keys.naming import checked_name

__all__ = ["Options", "refuse_positions"]


@dataclass(frozen=True, slots=True)
class Options:
    unkeyed: tuple[str, ...]
    resources: Mapping[str, Callable[[], Any]]
    context: tuple[ContextVar[Any], ...]
    version: str
    key: Callable[..., Any] | None
    name: str | None
    pickle: bool = False
    tags: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        *,
        unkeyed: Iterable[str],
        resources: Mapping[str, Callable[[], Any]] | None,
        context: Sequence[ContextVar[Any]],
        version: str | int,
        tags: Iterable[str] = (),
        secret: Iterable[str] = (),
        **rest: Any,
    ) -> Options:
        for option, text in (("name", rest.get("name")), ("version", str(version))):
            if text is not None and (not isinstance(text, str) or len(text) > LONGEST_TITLE):
                raise Misuse(
                    f"{option}= must be a text of at most {LONGEST_TITLE} characters; it is part of every key"
                )
        if rest.get("name") is not None:
            rest["name"] = checked_name(rest["name"])
        _check_context(context)
        if rest.get("key") is not None and not callable(rest["key"]):
            raise Misuse(
                "key= is a function of the same parameters that returns the parts of the key, not a text"
            )
        unkeyed = (unkeyed,) if isinstance(unkeyed, str) else tuple(unkeyed)
        secret = (secret,) if isinstance(secret, str) else tuple(secret)
        tags = checked_tags(tags)
        return cls(
            unkeyed, dict(resources or {}), tuple(context), str(version), tags=tags, secret=secret, **rest
        )


def _check_context(context: object) -> None:
    if isinstance(context, str) or not isinstance(context, Iterable):
        kind = type(context).__name__
        raise Misuse(f"context= is a tuple of ContextVars, not a {kind}: write context=(tenant,)")
    for variable in context:
        if not isinstance(variable, ContextVar):
            raise Misuse(f"context= takes ContextVars themselves, as in context=(tenant,), not {variable!r}")


def refuse_positions(decorator: str, given: tuple[Any, ...]) -> None:
    """Raise `Misuse` for options by position. A decorator without parentheses gets the function as one."""
    if not given:
        return
    first = given[0]
    if isinstance(first, StampedeGuard):
        write = f"@guard.{decorator}(ttl=300), or {decorator}(guard=guard, ttl=300)"
    elif isinstance(first, int | float):
        write = f"{decorator}(ttl={first})"
    elif callable(first) or isinstance(first, classmethod | staticmethod):
        name = getattr(first, "__name__", "the function")
        write = f"@{decorator}(ttl=300) above {name}(), with parentheses (@{decorator}() for the defaults)"
    else:
        write = f"{decorator}(ttl=300, name=..., version=...)"
    raise Misuse(f"{decorator} takes its options by name: write {write}")
