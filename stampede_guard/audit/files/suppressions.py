"""`# noqa: SG201 reason`: what a file suppresses, and which suppressions are useless."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stampede_guard.audit.files.reading import decode
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
                    continue  # a colon and a reason without a code: it suppresses nothing
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
    """Comments with "noqa" in them, by line. A string that contains the word suppresses nothing."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and "noqa" in token.string:
                yield token.start[0], token.string
    except (tokenize.TokenError, SyntaxError):
        return


def add(findings: list[Finding]) -> int:
    """Writes a suppression for every finding into its lines. Returns the number of changed lines."""
    changed = 0
    by_path: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.code != UNUSED:
            by_path.setdefault(finding.path, []).append(finding)
    for path, found in by_path.items():
        data = Path(path).read_bytes()
        lines = data.split(b"\n")  # the parser's line ends; str.splitlines knows more separators
        wanted = _by_line(found, _closed(decode(data)))
        for number, codes in wanted.items():
            lines[number - 1] = _with_codes(lines[number - 1], sorted(codes))
        Path(path).write_bytes(b"\n".join(lines))
        changed += len(wanted)
    return changed


def _by_line(findings: list[Finding], closed: set[int]) -> dict[int, set[str]]:
    """The codes for each line: the first line of a finding on which a comment can follow."""
    wanted: dict[int, set[str]] = {}
    for finding in findings:
        line = next((n for n in range(finding.line, finding.end_line + 1) if n in closed), None)
        if line is not None:
            wanted.setdefault(line, set()).add(finding.code)
    return wanted


def _closed(source: str) -> set[int]:
    """The lines whose end is neither inside a string nor continued by a backslash."""
    lines = source.split("\n")
    found = {number for number, line in enumerate(lines, 1) if not line.endswith("\\")}
    begun = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        name = tokenize.tok_name[token.type]
        if name.endswith("STRING_START"):  # f-strings of 3.12 and later consist of several tokens
            begun = begun or token.start[0]
        elif name == "STRING" or name.endswith("STRING_END"):
            found.difference_update(range(begun or token.start[0], token.end[0]))
            begun = 0
    return found


def _with_codes(line: bytes, codes: list[str]) -> bytes:
    body = line.rstrip(b"\r")
    text = body.decode("latin-1")  # every source encoding keeps ASCII bytes as they are
    known = _NOQA.search(text)
    if known is None or known["codes"] is None:
        text = f"{text}  # noqa: {', '.join(codes)}"
    else:
        text = f"{text[: known.end('codes')]}, {', '.join(codes)}{text[known.end('codes') :]}"
    return text.encode("latin-1") + line[len(body) :]
