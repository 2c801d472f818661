"""The audit: it finds caches that stampede. It reads source text, so the code need not be importable.

It imports nothing of the rest of the library, and needs neither Redis nor the program that it reads: `python -m
stampede_guard.audit PATH`.
"""

from __future__ import annotations

from stampede_guard.audit.engine import Outcome, audit, audit_source
from stampede_guard.audit.finding import Finding, Skipped
from stampede_guard.audit.rule import Rule, all_rules, rule_named

__all__ = ["Finding", "Outcome", "Rule", "Skipped", "all_rules", "audit", "audit_source", "rule_named"]
