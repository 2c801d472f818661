"""What a rule is: one code, its check, its fix and its documentation."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stampede_guard.audit.files.comments import lost_comment
from stampede_guard.audit.finding import Confidence, Finding, FixSafety, Level, Scope
from stampede_guard.audit.plan import FixPlan, NoFix
from stampede_guard.audit.prefilter import Hint, Text
from stampede_guard.audit.source.model import Module
from stampede_guard.audit.source.routes import endpoint


@dataclass(frozen=True, kw_only=True)
class Documentation:
    """What `explain` prints and the docs page shows."""

    what: str
    why: str
    example: str
    instead: str
    unless: str
    sure: str
    # Which fixes there are, or "No automatic fix: " and why.
    fix: str


@dataclass(frozen=True, kw_only=True)
class Violation:
    """What a rule's check yields: a node and its message."""

    node: ast.AST
    message: str
    confidence: Confidence | None = None
    scope: Scope | None = None
    # None: that of the rule.
    level: Level | None = None
    function: str = ""
    # The decorator that this defines, if it is one.
    defines: str = ""
    cost: tuple[str, ...] = ()
    # More places of the same fault in the same function; a fix mends them, too.
    also: tuple[ast.AST, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One code. `hints` are words that a file must contain: one of each group, the rarest group first.

    If the words alone are too common, `near` makes a second test of the files that contain them.
    """

    code: str
    name: str
    summary: str
    confidence: Confidence
    scope: Scope
    documentation: Documentation
    hints: tuple[Hint, ...]
    check: Callable[[Module], Iterator[Violation]]
    near: Callable[[Text], bool] | None = None
    # The fix of a hit; None for a rule without fixes.
    fix: Callable[[Module, Violation], FixPlan | None] | None = None
    # Which fixes there are, as the documentation says; a test compares this with the code.
    fixes: tuple[FixSafety, ...] = ()
    # A place in docs/: how to do by hand what the fix leaves.
    guide: str = ""
    # "information" fails no build.
    level: Level = "warning"

    def may_apply(self, text: Text) -> bool:
        return all(map(text.has_any, self.hints)) and (self.near is None or self.near(text))

    def findings(self, module: Module) -> Iterator[Finding]:
        for _hit, finding in self.judged(module):
            yield finding

    def planned(self, module: Module, hit: Violation) -> tuple[FixPlan | None, str]:
        """The fix of a hit, or why there is none."""
        if self.fix is None:
            return None, self.documentation.fix.removeprefix("No automatic fix: ").rstrip(".")
        try:
            plan = self.fix(module, hit)
        except NoFix as reason:
            return None, str(reason)
        except Exception as error:  # a bug in a fix does not hide the finding
            return None, f"the fix failed: {error!r}"
        if plan is None:
            return None, f"the code has not the form that the fix knows: `stampede-guard explain {self.code}`"
        lost = lost_comment(module.source, module.memo, plan)
        return (None, f"a comment would be lost: {lost}") if lost else (plan, "")

    def judged(self, module: Module) -> Iterator[tuple[Violation, Finding]]:
        """Each hit of the check, with its finding."""
        for hit in self.check(module):
            line = getattr(hit.node, "lineno", 1)
            plan, refused = self.planned(module, hit)
            yield (
                hit,
                Finding(
                    path=module.path,
                    line=line,
                    column=getattr(hit.node, "col_offset", 0) + 1,
                    end_line=getattr(hit.node, "end_lineno", None) or line,
                    code=self.code,
                    name=self.name,
                    message=hit.message,
                    confidence=hit.confidence or self.confidence,
                    scope=hit.scope or self.scope,
                    level=hit.level or self.level,
                    fixable=plan is not None and plan.safety == "safe",
                    fix=plan.safety if plan is not None else None,
                    fix_reasons=plan.reasons if plan is not None else (),
                    no_fix=refused,
                    **(plan.elsewhere if plan is not None else {}),
                    defines=hit.defines,
                    function=hit.function,
                    endpoint=endpoint(module, hit.node),
                    cost=hit.cost,
                ),
            )
