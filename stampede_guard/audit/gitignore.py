"""Which files git ignores: `.gitignore` files, read by the rules of gitignore(5)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pattern:
    """One line of an ignore file, for paths relative to the folder of that file."""

    regex: re.Pattern[str]
    negated: bool
    folders_only: bool


@dataclass(frozen=True)
class Ignores:
    """The patterns that apply in a folder. Its own come last, because the last match decides."""

    layers: tuple[tuple[str, tuple[Pattern, ...]], ...] = ()

    def entering(self, folder: str) -> Ignores:
        patterns = read(Path(folder) / ".gitignore")
        return Ignores((*self.layers, (folder, patterns))) if patterns else self

    def matches(self, path: str, *, is_folder: bool) -> bool:
        ignored = False
        for base, patterns in self.layers:
            relative = path[len(base) :].lstrip("/")
            for pattern in patterns:
                if pattern.folders_only and not is_folder:
                    continue
                if pattern.regex.fullmatch(relative):
                    ignored = not pattern.negated
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


def read(path: Path) -> tuple[Pattern, ...]:
    try:
        lines = path.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    return tuple(pattern for line in lines if (pattern := parse(line)) is not None)


def parse(line: str) -> Pattern | None:
    text = line.rstrip()
    if text.endswith("\\") and line[len(text) : len(text) + 1] == " ":
        text += " "
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text[1:] if negated else text
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    if not text:
        return None
    anchored = "/" in text
    try:
        regex = re.compile(("" if anchored else "(?:.*/)?") + _translate(text.lstrip("/")))
    except re.error:
        return None
    return Pattern(regex, negated, folders_only)


def _translate(text: str) -> str:
    out, index = [], 0
    while index < len(text):
        if text.startswith("**/", index):
            out.append("(?:.*/)?")
            index += 3
        elif text.startswith("**", index):
            out.append(".*")
            index += 2
        elif text[index] == "\\" and index + 1 < len(text):
            out.append(re.escape(text[index + 1]))
            index += 2
        elif text[index] == "[" and (end := text.find("]", index + 2)) != -1:
            inner = text[index + 1 : end].replace("\\", "\\\\")
            out.append("[" + ("^" + inner[1:] if inner[0] in "!^" else inner) + "]")
            index = end + 1
        else:
            out.append({"*": "[^/]*", "?": "[^/]"}.get(text[index], re.escape(text[index])))
            index += 1
    return "".join(out)
