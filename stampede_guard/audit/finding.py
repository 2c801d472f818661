"""What the audit reports: a finding, or a file that it could not read."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Literal

Confidence = Literal["low", "medium", "high"]
Scope = Literal["process", "fleet"]
FixSafety = Literal["safe", "unsafe"]
# Information is worth knowing, and fails no build.
Level = Literal["warning", "information"]

CONFIDENCES: tuple[Confidence, ...] = ("low", "medium", "high")
# Control characters, separators of lines, marks of direction and of nothing, and halves of characters.
_OTHERS = "\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
_ACTING = re.compile(f"[\x00-\x1f{_OTHERS}]")
_ACTING_IN_LINES = re.compile(f"[\x00-\x09\x0b\x0c\x0e-\x1f{_OTHERS}]")
# Fields for the audit itself, which no report shows.
_INTERNAL = frozenset(("private", "key", "otherwise", "defines"))


@dataclass(frozen=True, kw_only=True, order=True)
class Finding:
    """One place in the code. Lines and columns count from 1."""

    path: str
    line: int
    column: int
    code: str
    name: str
    message: str
    end_line: int
    confidence: Confidence
    # Where the herd forms: among the callers of one process, or only among the workers of the fleet.
    scope: Scope
    level: Level = "warning"
    # What `--fix` does by itself, and what it also does with --unsafe-fixes.
    fixable: bool = False
    fix: FixSafety | None = None
    # What to review after an unsafe fix; and why there is none.
    fix_reasons: tuple[str, ...] = ()
    no_fix: str = ""
    # What no other file may use or say, else there is no such fix: see `FixPlan`. `otherwise`: what to review then.
    private: str = ""
    key: str = ""
    otherwise: tuple[str, ...] = ()
    # The decorator of the project whose definition this is: its uses are counted.
    defines: str = ""
    function: str = ""
    # The request that reaches the function ("GET /quality/{project}"), if it is a route's.
    endpoint: str = ""
    # What a miss costs ("SQL", "HTTP", "model"), as far as the names of the calls show.
    cost: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        told = {**asdict(self), "cost": list(self.cost), "fix_reasons": list(self.fix_reasons)}
        return {name: value for name, value in told.items() if name not in _INTERNAL}

    @property
    def about_fix(self) -> str:
        """ "no fix: ...", or what to review after an unsafe one; empty if there is nothing to say."""
        if self.no_fix:
            return f"no fix: {self.no_fix}"
        return f"review the fix: {'; '.join(self.fix_reasons)}" if self.fix_reasons else ""

    @property
    def fingerprint(self) -> str:
        """What a baseline remembers. It stays the same when lines are added above."""
        return f"{self.path}:{self.code}:{self.function}"


@dataclass(frozen=True, kw_only=True, order=True)
class SkippedFile:
    """A file that was not audited, and the reason."""

    path: str
    reason: str
    # Whether it is no Python, or a newer one. Then the run has failed.
    broken: bool = False


def confident(finding: Finding, least: Confidence) -> bool:
    return CONFIDENCES.index(finding.confidence) >= CONFIDENCES.index(least)


def printable(text: str, *, lines: bool = False) -> str:
    """The text for a terminal or a log: what would move the cursor, forge a line or turn the text round is shown by its
    number. `lines`: line ends stay.
    """
    return (_ACTING_IN_LINES if lines else _ACTING).sub(_numbered, text)


def _numbered(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
