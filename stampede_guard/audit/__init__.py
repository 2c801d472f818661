"""The audit: it finds caches that stampede. It reads source text, so the code need not be importable.

It imports nothing of the rest of the library, and needs neither Redis nor the program that it reads: `python -m
stampede_guard.audit PATH`.
"""

from __future__ import annotations

from stampede_guard.audit.engine import AuditResult, audit, audit_source
from stampede_guard.audit.finding import Finding, SkippedFile
from stampede_guard.audit.rule import Rule
from stampede_guard.audit.rules import all_rules, rule_named

__all__ = [
    "AuditResult",
    "Finding",
    "Rule",
    "SkippedFile",
    "all_rules",
    "audit",
    "audit_source",
    "rule_named",
]
