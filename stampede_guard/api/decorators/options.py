"""The options of a decorator that are not part of the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from stampede_guard.api.keywords import ManyOptions, Resources
from stampede_guard.engine.tags.templates import checked_tags
from stampede_guard.errors import Misuse
from stampede_guard.policy import check_fields
from stampede_guard.stores.switch import LONGEST_TITLE
from stampede_guard.values.annotations import alternatives, resolve, root_package
from stampede_guard.values.keys.naming import checked_name

__all__ = ["Options", "check_guard", "refuse_one_callers_answer", "refuse_positions"]

_ONE_CALLERS = frozenset({"Response", "BackgroundTasks", "BackgroundTask"})


@dataclass(frozen=True, slots=True)
class Options:
    unkeyed: tuple[str, ...]
    resources: Mapping[str, Callable[..., Any]]
    context: tuple[ContextVar[Any], ...]
    version: str
    key: Callable[..., Any] | str | None
    name: str | None
    pickle: bool = False
    tags: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    in_thread: bool = True

    @classmethod
    def of(cls, given: Mapping[str, Any], *, resources: Resources | None) -> tuple[Options, dict[str, Any]]:
        """The options that a user gave, and the rest of them: fields of the policy. Raises `Misuse`."""
        fields = dict(given)
        name, version = fields.pop("name", None), fields.pop("version", "")
        for option, text in (("name", name), ("version", str(version))):
            if text is not None and (not isinstance(text, str) or len(text) > LONGEST_TITLE):
                raise Misuse(
                    f"{option}= must be a text of at most {LONGEST_TITLE} characters; it is part of every key"
                )
        context = fields.pop("context", ())
        _check_context(context)
        key = fields.pop("key", None)
        if key is not None and not callable(key) and not isinstance(key, str):
            raise Misuse(
                f"key= is a template such as 'user:{{user_id}}', or a function of the same parameters that returns the "
                f"parts of the key, not a {type(key).__name__}"
            )
        options = cls(
            _names(fields.pop("unkeyed", ())),
            dict(resources or {}),
            tuple(context),
            str(version),
            key,
            None if name is None else checked_name(name),
            pickle=fields.pop("pickle", False),
            tags=checked_tags(fields.pop("tags", ())),
            secret=_names(fields.pop("secret", ())),
            in_thread=fields.pop("in_thread", True),
        )
        of_policy = {field: value for field, value in fields.items() if field != "should_cache"}
        check_fields(of_policy, others=(*ManyOptions.__annotations__, "resources"))
        return options, fields


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


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
    if hasattr(type(first), "locked_cache"):
        write = f"@guard.{decorator}(ttl=300), or {decorator}(guard=guard, ttl=300)"
    elif isinstance(first, int | float):
        write = f"{decorator}(ttl={first})"
    elif callable(first) or isinstance(first, classmethod | staticmethod):
        name = getattr(first, "__name__", "the function")
        write = f"@{decorator}(ttl=300) above {name}(), with parentheses (@{decorator}() for the defaults)"
    else:
        write = f"{decorator}(ttl=300, name=..., version=...)"
    raise Misuse(f"{decorator} takes its options by name: write {write}")


def check_guard(guard: object) -> None:
    """Raise `Misuse` for anything but a guard or None."""
    if guard is not None and not hasattr(guard, "locked_cache"):
        raise Misuse(f"guard= is a StampedeGuard, not a {type(guard).__name__}: write guard=guard")


def refuse_one_callers_answer(function: Callable[..., Any], options: Options) -> None:
    """Refuse FastAPI's Response and BackgroundTasks: what the computation sets on them reaches only one caller."""
    for name, hint in resolve(function).items():
        if name == "return" or name in options.resources:
            continue
        for kind in alternatives(hint):
            bases = kind.__mro__ if isinstance(kind, type) else ()
            if any(root_package(base) == "starlette" and base.__name__ in _ONE_CALLERS for base in bases):
                raise Misuse(
                    f"parameter {name!r} of {function.__qualname__}() is a {kind.__name__}: it belongs to the "
                    f"response of one caller. Callers served from the cache would not get what is set on it. Use it in "
                    f"the endpoint, and cache a function that the endpoint calls."
                )
