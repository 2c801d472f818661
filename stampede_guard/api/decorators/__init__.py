"""The decorators. They are loaded when the first function is decorated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stampede_guard.api.decorators.many import cached_many
    from stampede_guard.api.decorators.one import locked_cache

__all__ = ["cached_many", "locked_cache"]


def __getattr__(name: str) -> Any:
    if name == "locked_cache":
        from stampede_guard.api.decorators.one import locked_cache

        return locked_cache
    if name == "cached_many":
        from stampede_guard.api.decorators.many import cached_many

        return cached_many
    raise AttributeError(f"module 'stampede_guard.api.decorators' has no attribute {name!r}")
