"""The guides that rules lead to: each is a place in the documentation."""

from __future__ import annotations

import importlib.metadata
import re
from email.message import Message
from pathlib import Path

import pytest

from stampede_guard.audit.reports.explain import explain
from stampede_guard.audit.reports.guides import address
from stampede_guard.audit.rules import all_rules, rule_named

DOCS = Path(__file__).resolve().parents[3] / "docs"


def places(page: str) -> set[str]:
    """The anchors of a page's headings, as the site and code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", (DOCS / page).read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("rule", [rule for rule in all_rules() if rule.guide], ids=lambda rule: rule.code)
def test_a_guide_is_a_heading_of_a_page(rule) -> None:  # type: ignore[no-untyped-def]
    page, _, place = rule.guide.partition("#")
    assert place in places(page)


def test_every_rule_about_another_librarys_decorator_has_a_guide() -> None:
    assert {rule.code for rule in all_rules() if rule.guide} == {f"SG10{number}" for number in range(1, 8)}


def test_a_guide_is_at_the_address_that_the_package_was_built_with(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = rule_named("SG101")
    assert rule is not None
    built = Message()
    monkeypatch.setattr(importlib.metadata, "metadata", lambda name: built)
    assert address(rule) == "docs/migrating.md#from-fastapi-cache2"
    built["Project-URL"] = "Repository, https://code.example/shop"
    built["Project-URL"] = "Documentation, https://code.example/shop/blob/v1.0/docs/"
    wanted = "https://code.example/shop/blob/v1.0/docs/migrating.md#from-fastapi-cache2"
    assert address(rule) == wanted
    assert explain("SG101").endswith(f"By hand\n    {wanted}\n")
