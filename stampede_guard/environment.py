"""What the environment says, read the same way by programs and by the command."""

from __future__ import annotations

import os
from typing import Any, Final

__all__ = ["NAMESPACE_VARIABLE", "NOT_GIVEN", "given_namespace"]

NAMESPACE_VARIABLE = "STAMPEDE_GUARD_NAMESPACE"
DEFAULT_NAMESPACE = "default"
NOT_GIVEN: Final[Any] = object()
"""In the place of an option. None is what a missing variable of the program's own gives, and so a mistake."""


def given_namespace(namespace: Any) -> tuple[Any, str]:
    """A namespace and where it was given: `namespace`, else `$STAMPEDE_GUARD_NAMESPACE`, else `default`.

    An empty variable counts as not set, as it does for the command.
    """
    if namespace is not NOT_GIVEN:
        return namespace, f"namespace={namespace!r}"
    named = os.environ.get(NAMESPACE_VARIABLE) or DEFAULT_NAMESPACE
    return named, f"${NAMESPACE_VARIABLE} ({named!r})"
