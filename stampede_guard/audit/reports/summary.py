"""Findings grouped by pattern, the most expensive first: what to fix first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stampede_guard.audit.files.suppressions import UNUSED
from stampede_guard.audit.finding import Finding
from stampede_guard.audit.rules import rule_named

_WEIGHTS = {"model": 8, "SQL": 4, "HTTP": 4, "render": 1}


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """All findings of one code, ranked by the likely cost of a miss."""

    code: str
    name: str
    summary: str
    findings: tuple[Finding, ...]

    @property
    def headline(self) -> str:
        endpoints = {finding.endpoint for finding in self.findings if finding.endpoint}
        functions = {(finding.path, finding.function) for finding in self.findings if not finding.endpoint}
        told = [
            f"{len(found)} {what}{'s' if len(found) > 1 else ''}"
            for found, what in ((endpoints, "endpoint"), (functions, "function"))
            if found
        ]
        alone = len(endpoints) + len(functions) == 1
        return f"{' and '.join(told)} share{'s' if alone else ''} this pattern"


def price(finding: Finding) -> int:
    return sum(_WEIGHTS.get(kind, 0) for kind in finding.cost)


def patterns(findings: list[Finding]) -> Iterator[Pattern]:
    by_code: dict[str, list[Finding]] = {}
    for finding in findings:
        by_code.setdefault(finding.code, []).append(finding)
    for code, group in sorted(
        by_code.items(), key=lambda item: (-sum(map(price, item[1])), -len(item[1]), item[0])
    ):
        rule = rule_named(code)
        if code == UNUSED or rule is None:
            continue
        ranked = tuple(sorted(group, key=lambda finding: (-price(finding), finding)))
        yield Pattern(code=code, name=rule.name, summary=rule.summary, findings=ranked)
