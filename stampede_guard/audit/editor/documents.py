"""One open document: its findings, their explanation, and the edits that mend them. Knows nothing of the protocol."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from stampede_guard.audit.config import Config, load, selected
from stampede_guard.audit.engine import AuditOptions, audit_source
from stampede_guard.audit.files.paths import relative
from stampede_guard.audit.files.project import with_project
from stampede_guard.audit.finding import Finding
from stampede_guard.audit.fixing import mended
from stampede_guard.audit.reports.guides import page
from stampede_guard.audit.rules import rule_named


@dataclass(frozen=True)
class LineEdit:
    """Lines `first` to `last` (from 0, without `last`) become `text`."""

    first: int
    last: int
    text: str


@dataclass(frozen=True)
class Fix:
    """What an editor offers. An unsafe one names what to review."""

    title: str
    edit: LineEdit
    safe: bool


def findings(path: str, text: str) -> list[Finding]:
    """The findings of a document, under the settings of the nearest pyproject.toml. Raises Misconfigured."""
    config, options = _settings(str(Path(path).parent))
    if config.excluded.cover(path):
        return []
    found = audit_source(relative(path), text.encode("utf-8", "replace"), options).findings
    return [finding for finding in found if not config.ignores(finding)]


def forget_settings() -> None:
    """After a pyproject.toml has changed."""
    _settings.cache_clear()


@lru_cache(maxsize=64)
def _settings(folder: str) -> tuple[Config, AuditOptions]:
    config = load((Path(folder),))
    codes, named = selected(config.select, config.ignore, config.extend_select)
    return config, AuditOptions(codes=codes, named=named, least=config.min_confidence, parse_all=True)


def explanation(finding: Finding) -> str:
    """Markdown: the message, what the rule means, and what a fix does or why there is none."""
    lines = [f"**{finding.code} {finding.name}**: {finding.message}"]
    rule = rule_named(finding.code)
    if rule is not None:
        said = rule.documentation
        lines += [said.why, f"Instead:\n\n```python\n{said.instead}\n```", f"Unless: {said.unless}"]
    if finding.fix_reasons:
        lines.append(
            "After the fix, review:\n\n" + "\n".join(f"- {reason}" for reason in finding.fix_reasons)
        )
    if finding.no_fix:
        lines.append(f"No fix: {finding.no_fix}")
    return "\n\n".join([*lines, page(finding.code)])


def fixes(path: str, text: str, finding: Finding) -> list[Fix]:
    """The fix of a finding, if it has one and LibCST is installed, and its suppression."""
    offered = [_suppression(text, finding)]
    if finding.fix is not None and find_spec("libcst") is not None:
        edit = _mended(path, text, finding)
        if edit is not None:
            review = f" (review: {'; '.join(finding.fix_reasons)})" if finding.fix_reasons else ""
            offered.insert(0, Fix(f"{finding.code}: fix{review}", edit, finding.fix == "safe"))
    return offered


def _mended(path: str, text: str, finding: Finding) -> LineEdit | None:
    after = mended(relative(path), text, {(finding.code, finding.function)}, with_project([], [path]))
    return _difference(text, after) if after is not None and after != text else None


def _difference(before: str, after: str) -> LineEdit:
    """The lines between the first and the last changed one."""
    old, new = _lines(before), _lines(after)
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    same = 0
    while same < min(len(old), len(new)) - first and old[-1 - same] == new[-1 - same]:
        same += 1
    return LineEdit(first, len(old) - same, "".join(new[first : len(new) - same]))


def _suppression(text: str, finding: Finding) -> Fix:
    line = _lines(text)[finding.line - 1]
    bare = line.rstrip("\r\n")
    edit = LineEdit(finding.line - 1, finding.line, f"{bare}  # noqa: {finding.code}{line[len(bare) :]}")
    return Fix(f"{finding.code}: suppress on this line", edit, safe=True)


def _lines(text: str) -> list[str]:
    """As Python and editors count them: a form feed or U+2028 ends no line."""
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text)
