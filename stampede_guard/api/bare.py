"""The decorators as users import them. Without `guard=` they use the default guard, which the guard's module makes."""

import stampede_guard.api.guard  # noqa: F401
from stampede_guard.api.decorators.many import cached_many
from stampede_guard.api.decorators.one import locked_cache

__all__ = ["cached_many", "locked_cache"]
