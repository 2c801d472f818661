"""A rule's documentation, for a terminal and for the docs page."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.audit.reports.guides import address
from stampede_guard.audit.rule import Rule
from stampede_guard.audit.rules import all_rules, rule_named


def explain(code: str) -> str:
    """Raises KeyError for an unknown code or name."""
    rule = rule_named(code)
    if rule is None:
        raise KeyError(code)
    said = rule.documentation
    parts = [
        f"{rule.code} {rule.name}",
        f"{rule.summary}\nconfidence {rule.confidence}, scope {rule.scope}",
        f"What it does\n{_indented(said.what)}",
        f"Why it is bad\n{_indented(said.why)}",
        f"Example\n{_indented(said.example)}",
        f"Use instead\n{_indented(said.instead)}",
        f"When not to care\n{_indented(said.unless)}",
        f"How sure\n{_indented(said.sure)}",
        f"Fix\n{_indented(said.fix)}",
    ]
    if rule.guide:
        parts.append(f"By hand\n{_indented(address(rule))}")
    return "\n\n".join(parts) + "\n"


def listing() -> str:
    return "".join(f"{rule.code}  {rule.name:32} {rule.summary}\n" for rule in all_rules())


def table() -> str:
    """The table of the docs page."""
    rows = ["| code | name | what it is | confidence | scope | fix |", "|---|---|---|---|---|---|"]
    rows += [
        f"| [{rule.code}](#{rule.code.lower()}) | {rule.name} | {rule.summary.replace('|', chr(92) + '|')} "
        f"| {rule.confidence} | {rule.scope} | {' or '.join(rule.fixes) or '-'} |"
        for rule in all_rules()
    ]
    return "\n".join(rows) + "\n"


def pages() -> str:
    """Every rule's documentation as Markdown."""
    return "\n".join(line for rule in all_rules() for line in _page(rule))


def _page(rule: Rule) -> Iterator[str]:
    said = rule.documentation
    yield f'<a id="{rule.code.lower()}"></a>'
    yield f"## {rule.code} {rule.name}"
    yield from ("", said.what, "", f"**Why it is bad.** {said.why}", "")
    yield from ("```text", said.example, "```", "", "Use instead:", "", "```text", said.instead, "```", "")
    yield from (
        f"**When not to care.** {said.unless}",
        "",
        f"**How sure.** {said.sure}",
        "",
        f"**Fix.** {said.fix}",
        "",
    )
    if rule.guide:
        yield from (f"**By hand.** [Before and after]({rule.guide}), for what the fix leaves.", "")


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())
