"""What a decorator was told beside the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

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
        unkeyed = (unkeyed,) if isinstance(unkeyed, str) else tuple(unkeyed)
        return cls(unkeyed, dict(resources or {}), tuple(context), str(version), **rest)
