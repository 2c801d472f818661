"""`--fix` and `--fix --diff`: rewrites or shows files, and prints one line per result."""

from __future__ import annotations

import sys
from collections import Counter

from stampede_guard.audit.engine import AuditResult
from stampede_guard.audit.finding import Finding, plural, printable
from stampede_guard.audit.fixing.files import Fixed, Unfixable, fixed, fixed_files, write


def fix_files(outcome: AuditResult, files: list[str], *, diff: bool, unsafe: bool) -> int:
    """The number of files that were changed, or would be. Diffs go to stdout, everything else to stderr."""
    done: list[Fixed] = []
    for made in fixed_files(_fixable(outcome), files, unsafe=unsafe):
        if isinstance(made, tuple):
            _refuse(*made)  # a whole file, or one of its findings
            continue
        try:
            if diff:
                _to_stdout(made.diff())
            else:
                write(made)
            done.append(made)
        except Unfixable as reason:
            _refuse(made.path, str(reason))
    sys.stderr.write(f"audit: {_told(done, diff=diff)}\n")
    return len(done)


def fix_text(
    outcome: AuditResult, data: bytes, path: str, files: list[str], *, diff: bool, unsafe: bool
) -> bytes:
    """For standard input: the new text, or the diff, goes to stdout. Returns the new text."""
    wanted = {(finding.code, finding.function) for finding in _fixable(outcome)}
    made = Fixed(path, data, data)
    try:
        made = fixed(path, data, wanted, unsafe=unsafe, files=files)
        for code, function, why in made.refused:
            _refuse(path, f"{code} in {function}: {why}")
    except Unfixable as reason:
        _refuse(path, str(reason))
    _to_stdout(made.diff() if diff else made.after)
    return made.after


def _to_stdout(data: bytes) -> None:
    """As bytes: a file has an encoding and line ends of its own."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _fixable(outcome: AuditResult) -> list[Finding]:
    """All findings of each file that has a fixable one: one fix may enable the next."""
    paths = {finding.path for finding in outcome.findings if finding.fix is not None}
    return [finding for finding in outcome.findings if finding.path in paths]


def _refuse(path: str, reason: str) -> None:
    sys.stderr.write(f"audit: {printable(f'{path} stays as it is: {reason}')}\n")


def _told(done: list[Fixed], *, diff: bool) -> str:
    codes = Counter(code for made in done for code in made.codes)
    count = codes.total()
    would = "would be fixed" if diff else "fixed"
    what = f"{plural(count, 'finding')} {would} in {plural(len(done), 'file')}"
    return (
        f"{what} ({', '.join(f'{code}: {number}' for code, number in sorted(codes.items()))})"
        if codes
        else what
    )
