"""`# noqa: SG201 reason`: what a file says should not be reported, and which of it is not needed any more."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stampede_guard.audit.finding import Finding

UNUSED = "SG000"
NAME_OF_UNUSED = "unused-suppression"
_NOQA = re.compile(
    r"#\s*noqa\b(?P<some>\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*))?", re.IGNORECASE
)
_CODE = re.compile(r"[A-Z]+[0-9]+")


@dataclass
class Suppressions:
    """Codes by line; an empty set stands for all of them (a bare `# noqa`)."""

    lines: dict[int, set[str]] = field(default_factory=dict)
    used: set[tuple[int, str]] = field(default_factory=set)

    @classmethod
    def of(cls, source: str) -> Suppressions:
        lines: dict[int, set[str]] = {}
        for number, line in _comments(source):
            if found := _NOQA.search(line):
                if found["some"] is None and line[found.end() :].lstrip().startswith(":"):
                    continue  # a colon and a reason: no code is named, so none is meant
                lines[number] = {code.upper() for code in _CODE.findall((found["codes"] or "").upper())}
        return cls(lines)

    def covers(self, finding: Finding) -> bool:
        for line in range(finding.line, finding.end_line + 1):
            codes = self.lines.get(line)
            if codes is not None and (not codes or finding.code in codes):
                self.used.add((line, finding.code))
                return True
        return False

    def unused(self) -> list[tuple[int, str]]:
        return [
            (line, code)
            for line, codes in sorted(self.lines.items())
            for code in sorted(codes)
            if code.startswith("SG") and code != UNUSED and (line, code) not in self.used
        ]


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments with "noqa" in them, by line: a text that only speaks of it suppresses nothing."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and "noqa" in token.string:
                yield token.start[0], token.string
    except (tokenize.TokenError, SyntaxError):
        return


def add(findings: list[Finding]) -> int:
    """Writes a suppression behind every finding's first line; returns how many lines were changed."""
    changed = 0
    by_path: dict[str, dict[int, set[str]]] = {}
    for finding in findings:
        if finding.code != UNUSED:
            by_path.setdefault(finding.path, {}).setdefault(finding.line, set()).add(finding.code)
    for path, lines in by_path.items():
        text = Path(path).read_bytes().decode("utf-8").splitlines(keepends=True)
        for number, codes in lines.items():
            line = text[number - 1]
            body = line.rstrip("\r\n")
            if body.endswith("\\"):
                continue  # nothing may follow a line continuation
            text[number - 1] = _with_codes(body, sorted(codes)) + line[len(body) :]
            changed += 1
        Path(path).write_bytes("".join(text).encode("utf-8"))
    return changed


def _with_codes(line: str, codes: list[str]) -> str:
    known = _NOQA.search(line)
    if known is None or known["codes"] is None:
        return f"{line}  # noqa: {', '.join(codes)}"
    return f"{line[: known.end('codes')]}, {', '.join(codes)}{line[known.end('codes') :]}"
