"""Which files git ignores: `.gitignore` files, as gitignore(5) defines them. `pathspec` reads their lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from stampede_guard.audit.files.linear import LinearPattern


@dataclass(frozen=True)
class Ignores:
    """The patterns that apply in a folder. Its own come last, because the last match decides."""

    layers: tuple[tuple[str, tuple[LinearPattern, ...]], ...] = ()

    def entering(self, folder: str) -> Ignores:
        patterns = read(Path(folder) / ".gitignore")
        return Ignores((*self.layers, (folder, patterns))) if patterns else self

    def matches(self, path: str, *, is_folder: bool) -> bool:
        ignored = False
        for base, patterns in self.layers:
            name = path[len(base) :].lstrip("/") + ("/" if is_folder else "")
            for pattern in patterns:
                # Only a pattern that can change the answer is matched.
                if ignored is not pattern.include and _matches(pattern, name):
                    ignored = not ignored
        return ignored


def above(folder: Path) -> Ignores:
    """The patterns from the repository's root down to a folder, if it is in a repository."""
    chain = [folder, *folder.parents]
    root = next((index for index, parent in enumerate(chain) if (parent / ".git").exists()), None)
    found = Ignores()
    if root is not None:
        mine = read(chain[root] / ".git" / "info" / "exclude")
        found = Ignores(((str(chain[root]), mine),)) if mine else found
        for parent in reversed(chain[1 : root + 1]):
            found = found.entering(str(parent))
    return found


def read(path: Path) -> tuple[LinearPattern, ...]:
    try:
        lines = path.read_text("utf-8-sig", errors="replace").split("\n")
    except OSError:
        return ()
    return tuple(pattern for line in lines if (pattern := _parse(line.removesuffix("\r"))) is not None)


def _parse(line: str) -> LinearPattern | None:
    """None for a comment, an empty line, and what git does not understand either."""
    if line.endswith("/**/"):
        line += "*/"  # folders inside a folder; pathspec would take the folder itself
    try:
        pattern = LinearPattern(line)
    except (ValueError, re.error):
        return None
    return pattern if pattern.include is not None else None


def _matches(pattern: LinearPattern, name: str) -> bool:
    """Whether a pattern matches this very name.

    A pattern that matches a folder also matches everything inside it. Such a match captures the folder's slash, and
    the name goes on after it. It does not count, because the walk has already asked about the folder. For example in
    `*`, `!*/`, `!keep.py`, the second line admits folders, and not the files in them.
    """
    found = pattern.regex.finditer(name) if pattern.regex is not None else ()
    return any(match.lastgroup is None or match.end(match.lastgroup) == len(name) for match in found)
