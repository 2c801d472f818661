"""Tags that are known only when a computation has ended, as those of an HTTP response that names its groups.

A value must carry the versions that its tags had before its computation began (`core.tags`). Who does not know the
tags by then reads the *window* instead: one more tag, which every invalidation of a late tag changes first.

1. Read the window. 2. Compute: the value names its tags. 3. Read their versions, or create them. 4. Read the window
again. If it is the same, none of the tags was invalidated between 1 and 3: their versions are those from before the
computation. If it has changed, the value serves no later caller.

Why the window changes first: 1. An invalidation drops the tag. 2. The value's versions are read, new ones. 3. The
window is read, unchanged. 4. The invalidation drops the window. The old value would carry the new versions.
"""

from __future__ import annotations

from collections.abc import Iterable

from stampede_guard.engine.tags.templates import tag_key

__all__ = ["EVERYWHERE", "OF_ORIGIN", "WINDOW", "is_late", "windows_of"]

EVERYWHERE = "http:"
"""Begins the text of a tag of responses, whatever their origin."""
OF_ORIGIN = "http@"
"""Begins the text of a tag of the responses of one origin."""
WINDOW = tag_key(f"{OF_ORIGIN}*")

_BEGINNINGS = (tag_key(EVERYWHERE), tag_key(OF_ORIGIN))


def is_late(key: str) -> bool:
    """Whether this name of a tag, without the namespace, is of one that is known only after the computation."""
    return key.startswith(_BEGINNINGS)


def windows_of(names: Iterable[str]) -> set[str]:
    """The windows that change before these tags or entries do, as complete names."""
    split = [name.partition("#") for name in names]
    return {prefix + WINDOW for prefix, mark, rest in split if is_late(mark + rest)}
