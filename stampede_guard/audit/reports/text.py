"""The report for a terminal: each finding in a frame of its source, then what to fix first."""

from __future__ import annotations

import io
from functools import lru_cache
from importlib.util import find_spec

from stampede_guard.audit.engine import AuditResult
from stampede_guard.audit.files.reading import Unreadable, decode, read
from stampede_guard.audit.finding import Finding, printable
from stampede_guard.audit.reports.guides import page
from stampede_guard.audit.reports.machine import total
from stampede_guard.audit.reports.summary import patterns

_AROUND = 2  # lines shown before and after a finding
_LONGEST = 110
_SHOWN = 5  # functions listed per pattern of the summary


def text(outcome: AuditResult) -> str:
    """Plain text; `rich_text` adds colour."""
    parts = [line for finding in outcome.findings for line in (*_frame(finding), "")]
    parts += [f"{skipped.path}: skipped: {skipped.reason}" for skipped in outcome.skipped]
    return "\n".join(map(printable, [*parts, *_summary(outcome), total(outcome)])) + "\n"


def has_rich() -> bool:
    return find_spec("rich") is not None


def rich_text(outcome: AuditResult, *, width: int) -> str:
    """The same with colours, for a terminal. Needs rich (the extra `stampede-guard[audit]`)."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=io.StringIO(), force_terminal=True, width=width, highlight=False)
    for line in text(outcome).splitlines():
        styled = Text(line)
        styled.highlight_regex(r"^\S+?:\d+:\d+: (?P<code>SG\d+)", style="bold")
        styled.highlight_regex(r"\bSG\d{3}\b", style="bold red")
        styled.highlight_regex(r"^\s+\d+ \|", style="blue")
        styled.highlight_regex(r"\^+$", style="bold red")
        console.print(styled, soft_wrap=True)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _frame(finding: Finding) -> list[str]:
    lines = [f"{finding.path}:{finding.line}:{finding.column}: {finding.code} {finding.message}"]
    source = _lines(finding.path)
    first = max(1, finding.line - _AROUND)
    last = min(len(source), finding.line + _AROUND)
    width = len(str(last))
    for number in range(first, last + 1):
        shown = source[number - 1].expandtabs(4)[:_LONGEST]
        lines.append(f" {number:>{width}} | {shown}".rstrip())
        if number == finding.line:
            lines.append(f" {'':>{width}} | {' ' * (finding.column - 1)}^^^^^")
    how = "information, " if finding.level == "information" else ""
    how += f"confidence {finding.confidence}, scope {finding.scope}"
    if finding.cost:
        how += f", a miss costs {', '.join(finding.cost)}"
    if finding.fix is not None:
        how += ", fixable" if finding.fixable else ", fixable (unsafe)"
    lines.append(f" {'':>{width}} = {how}, see {page(finding.code)}")
    lines += [f" {'':>{width}} = review: {reason}" for reason in finding.fix_reasons]
    if finding.no_fix:
        lines.append(f" {'':>{width}} = no fix: {finding.no_fix}")
    return lines


@lru_cache(maxsize=256)
def _lines(path: str) -> list[str]:
    try:
        return decode(read(path)).split("\n")
    except Unreadable:
        return []


def _summary(outcome: AuditResult) -> list[str]:
    lines: list[str] = []
    for pattern in patterns(outcome.findings):
        lines.append(f"{pattern.code} {pattern.name}: {pattern.headline}")
        for finding in pattern.findings[:_SHOWN]:
            cost = f" ({', '.join(finding.cost)})" if finding.cost else ""
            where = finding.endpoint or finding.function or finding.path
            lines.append(f"    {where}{cost}  {finding.path}:{finding.line}")
        if len(pattern.findings) > _SHOWN:
            lines.append(f"    and {len(pattern.findings) - _SHOWN} more")
    return [*lines, ""] if lines else []
