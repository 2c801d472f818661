"""Names of entries as operators write them."""

from __future__ import annotations

import re

from stampede_guard.keys.explained import bare, explain_name

__all__ = ["complete"]

_WITHOUT_NAMESPACE = re.compile(r"=|[^:]+:[0-9a-f]{12}:")


def complete(name: str, namespace: str) -> str:
    """The complete name: with or without the namespace, or as `{name}:v`, as Redis shows it. Raises `Misuse`."""
    name = bare(name)
    if not name.startswith(f"{namespace}:") and _WITHOUT_NAMESPACE.match(name):
        name = f"{namespace}:{name}"
    return explain_name(name, namespace=namespace).name
