"""Which lines changed since a revision, from git."""

from __future__ import annotations

import os
import re
import subprocess

from stampede_guard.audit.finding import Finding

_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


# Options that override the user's own diff configuration.
_PLAIN = ("--unified=0", "--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/")


class NoSuchRevision(ValueError):
    """git could not compare."""


def changed_lines(revision: str) -> dict[str, list[tuple[int, int]]]:
    """First and last lines by real path. Raises NoSuchRevision."""
    top = _git("rev-parse", "--show-toplevel").rstrip("\n")
    found: dict[str, list[tuple[int, int]]] = {}
    path = ""
    for line in _git("diff", *_PLAIN, revision, "--", ":/*.py").split("\n"):
        if line.startswith("+++ "):
            # git ends a name that contains blanks with a tab
            path = os.path.realpath(os.path.join(top, line[6:].rstrip("\t"))) if line[4:6] == "b/" else ""
        elif path and (hunk := _HUNK.match(line)):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            if count:
                found.setdefault(path, []).append((first, first + count - 1))
    for name in _git("ls-files", "-z", "--others", "--exclude-standard", "--full-name", ":/").split("\0"):
        if name.endswith(".py"):
            found[os.path.realpath(os.path.join(top, name))] = [(1, 10**9)]
    return found


def touches(finding: Finding, lines: dict[str, list[tuple[int, int]]]) -> bool:
    ranges = lines.get(os.path.realpath(finding.path), [])
    return any(first <= finding.end_line and finding.line <= last for first, last in ranges)


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-c", "core.quotePath=false", *arguments],
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoSuchRevision(f"git cannot be run: {error}") from error
    if done.returncode != 0:
        raise NoSuchRevision(done.stderr.strip() or "git failed")
    return done.stdout
