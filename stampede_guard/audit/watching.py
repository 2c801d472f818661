"""`--watch`: audits again when a file has changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

Stamps = dict[str, tuple[int, int]]

PAUSE = 0.5  # seconds between two looks at the files


def stamps(files: Iterable[str]) -> Stamps:
    """Time of change and size of each file that exists."""
    found: Stamps = {}
    for path in files:
        try:
            state = os.stat(path)
        except OSError:
            continue
        found[path] = state.st_mtime_ns, state.st_size
    return found


def changes(files: Callable[[], Iterable[str]], pause: Callable[[float], None]) -> Iterator[list[str]]:
    """The changed, new and removed files, whenever there are any. It looks every half second, for ever."""
    before = stamps(files())
    while True:
        pause(PAUSE)
        now = stamps(files())
        changed = sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
        before = now
        if changed:
            yield changed
