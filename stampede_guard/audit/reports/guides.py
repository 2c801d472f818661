"""Where the documentation says what a fix leaves to be done by hand."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Iterator
from functools import cache

from stampede_guard.audit.finding import Finding
from stampede_guard.audit.rule import Rule
from stampede_guard.audit.rules import all_rules

__all__ = ["address", "guide_lines", "page"]

_DOCS = "docs"
"""The folder in the repository, for a package that was built without an address of its own."""


def address(rule: Rule) -> str:
    """A link to the rule's guide, or nothing. It begins with the address that the package was built with, if any."""
    return f"{_documentation()}/{rule.guide}" if rule.guide else ""


def page(code: str) -> str:
    """Where the documentation describes a rule."""
    return f"{_root()}/audit.md#{code.lower()}"


@cache
def _root() -> str:
    return _documentation()


def guide_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """One line for each guide of the findings' rules."""
    found = {finding.code for finding in findings}
    by_guide: dict[str, list[str]] = {}
    for rule in all_rules():
        if rule.code in found and rule.guide:
            by_guide.setdefault(address(rule), []).append(rule.code)
    for guide, codes in by_guide.items():
        yield f"to do by hand for {', '.join(codes)} (invalidation, keys, options): {guide}"


def _documentation() -> str:
    """`Project-URL: Documentation, https://...` of the installed package: see hatch_build.py."""
    try:
        stated = importlib.metadata.metadata("stampede-guard").get_all("Project-URL") or ()
    except importlib.metadata.PackageNotFoundError:
        return _DOCS
    addresses = (line.partition(", ") for line in stated)
    return next((where.rstrip("/") for label, _, where in addresses if label == "Documentation"), _DOCS)
