"""Report formats: one module for people, the others for machines."""

from __future__ import annotations

from collections.abc import Callable

from stampede_guard.audit.engine import AuditResult
from stampede_guard.audit.reports.machine import concise, github, json_report
from stampede_guard.audit.reports.markdown import markdown
from stampede_guard.audit.reports.quality import gitlab, junit
from stampede_guard.audit.reports.sarif import sarif
from stampede_guard.audit.reports.text import text

FORMATS: dict[str, Callable[[AuditResult], str]] = {
    "text": text,
    "concise": concise,
    "json": json_report,
    "github": github,
    "sarif": sarif,
    "markdown": markdown,
    "gitlab": gitlab,
    "junit": junit,
}
