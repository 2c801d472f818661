"""A progress bar on stderr. It disappears before the report."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

_WIDTH = 24


class ProgressBar:
    """How many of the files found so far are done. `files` keeps them, in the order they were found."""

    def __init__(self, *, shown: bool) -> None:
        self.files: list[str] = []
        self._done, self._shown, self._complete = 0, shown, False

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def watch(self, files: Iterable[str]) -> Iterator[str]:
        """Passes the files on. The bar's end is known once all are found."""
        for path in files:
            self.files.append(path)
            yield path
        self._complete = True

    def advance(self, files: int) -> None:
        self._done += files
        if self._shown:
            sys.stderr.write(f"\r{self._line()}")
            sys.stderr.flush()

    def _line(self) -> str:
        total = len(self.files)
        full = min(_WIDTH, _WIDTH * self._done // max(1, total))
        more = "" if self._complete else "+"
        return f"[{'=' * full}{' ' * (_WIDTH - full)}] {self._done}/{total}{more} files"
