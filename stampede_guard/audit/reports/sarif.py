"""SARIF 2.1.0 (OASIS), for code scanning services."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from stampede_guard.audit.engine import AuditResult
from stampede_guard.audit.files.suppressions import NAME_OF_UNUSED, UNUSED
from stampede_guard.audit.finding import Finding
from stampede_guard.audit.reports.guides import page
from stampede_guard.audit.rule import Rule
from stampede_guard.audit.rules import all_rules

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"high": "error", "medium": "warning", "low": "note"}


def sarif(outcome: AuditResult) -> str:
    run = {
        "tool": {"driver": {"name": "stampede-guard audit", "rules": [*map(_rule, all_rules()), _unused()]}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding) for finding in outcome.findings],
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {
                        "level": "note",
                        "message": {"text": f"skipped: {skipped.reason}"},
                        "locations": [
                            {"physicalLocation": {"artifactLocation": {"uri": quote(skipped.path)}}}
                        ],
                    }
                    for skipped in outcome.skipped
                ],
            }
        ],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    said = rule.documentation
    where = page(rule.code)
    return {
        # A URI must be absolute; a package built without an address has none.
        **({"helpUri": where} if "://" in where else {}),
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": f"{said.what} {said.why}"},
        "help": {"text": f"{said.why}\n\nInstead:\n{said.instead}\n\nUnless: {said.unless}"},
        "defaultConfiguration": {
            "level": "note" if rule.level == "information" else _LEVELS[rule.confidence]
        },
    }


def _unused() -> dict[str, Any]:
    return {"id": UNUSED, "name": NAME_OF_UNUSED, "shortDescription": {"text": "a useless suppression"}}


def _result(finding: Finding) -> dict[str, Any]:
    return {
        "ruleId": finding.code,
        "level": "note" if finding.level == "information" else _LEVELS[finding.confidence],
        "message": {"text": finding.message},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(finding.path)},
                    "region": {
                        "startLine": finding.line,
                        "startColumn": finding.column,
                        "endLine": finding.end_line,
                    },
                }
            }
        ],
        "partialFingerprints": {"function/v1": finding.fingerprint},
        "properties": {
            "confidence": finding.confidence,
            "scope": finding.scope,
            "url": page(finding.code),
            "fix": finding.fix or "none",
            "fixReasons": list(finding.fix_reasons),
            "noFix": finding.no_fix,
        },
    }
