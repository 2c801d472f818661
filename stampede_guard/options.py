"""What a decorator was told beside the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from stampede_guard.core.switch import LONGEST_TITLE
from stampede_guard.errors import Misuse

__all__ = ["Options"]


@dataclass(frozen=True, slots=True)
class Options:
    unkeyed: tuple[str, ...]
    resources: Mapping[str, Callable[[], Any]]
    context: tuple[ContextVar[Any], ...]
    version: str
    key: Callable[..., Any] | None
    name: str | None
    pickle: bool = False

    @classmethod
    def of(
        cls,
        *,
        unkeyed: Iterable[str],
        resources: Mapping[str, Callable[[], Any]] | None,
        context: Sequence[ContextVar[Any]],
        version: str | int,
        **rest: Any,
    ) -> Options:
        for option, text in (("name", rest.get("name")), ("version", str(version))):
            if text is not None and (not isinstance(text, str) or len(text) > LONGEST_TITLE):
                raise Misuse(
                    f"{option}= must be a text of at most {LONGEST_TITLE} characters; it is part of every key"
                )
        unkeyed = (unkeyed,) if isinstance(unkeyed, str) else tuple(unkeyed)
        return cls(unkeyed, dict(resources or {}), tuple(context), str(version), **rest)
