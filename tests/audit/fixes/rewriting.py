"""What a fix makes of a few lines, and what the report says of them."""

from __future__ import annotations

from stampede_guard.audit import Finding, audit_source
from stampede_guard.audit.engine import AuditOptions
from stampede_guard.audit.fixing.files import fixed


def told(text: str, *codes: str) -> list[Finding]:
    outcome = audit_source("mod.py", text.encode(), AuditOptions(codes=frozenset(codes), least="low"))
    assert outcome.skipped == []
    return outcome.findings


def rewritten(text: str, *codes: str, unsafe: bool = True) -> str:
    wanted = {(finding.code, finding.function) for finding in told(text, *codes)}
    assert wanted, "nothing is found: the test would hold for any fix"
    return fixed("mod.py", text.encode(), wanted, unsafe=unsafe).after.decode()
