"""Settings from environment variables. Programs and the command line read them in the same way."""

from __future__ import annotations

import os
import re
from typing import Any, Final

__all__ = ["NAMESPACE", "NAMESPACE_VARIABLE", "NOT_GIVEN", "given_namespace"]

NAMESPACE_VARIABLE = "STAMPEDE_GUARD_NAMESPACE"
DEFAULT_NAMESPACE = "default"
NAMESPACE = re.compile(r"[A-Za-z0-9._:-]{1,64}")
"""The namespaces that are allowed."""
NOT_GIVEN: Final[Any] = object()
"""Stands for an option that was not given. None is a mistake: it usually comes from a missing environment variable."""


def given_namespace(namespace: Any) -> tuple[Any, str]:
    """The namespace, and where it comes from: `namespace`, else `$STAMPEDE_GUARD_NAMESPACE`, else `default`.

    An empty variable counts as not set, as on the command line.
    """
    if namespace is not NOT_GIVEN:
        return namespace, f"namespace={namespace!r}"
    named = os.environ.get(NAMESPACE_VARIABLE) or DEFAULT_NAMESPACE
    return named, f"${NAMESPACE_VARIABLE} ({named!r})"
