"""A fix as data: edits by place in the file, how safe they are, and what to review."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any

from stampede_guard.audit.finding import FixSafety


@dataclass(frozen=True, order=True)
class Span:
    """A place in the file, counted like `ast`: lines from 1, columns from 0 in UTF-8 bytes."""

    line: int
    column: int
    end_line: int
    end_column: int

    @classmethod
    def of(cls, node: ast.expr | ast.stmt) -> Span:
        end_line, end_column = node.end_lineno, node.end_col_offset
        assert end_line is not None and end_column is not None
        return cls(node.lineno, node.col_offset, end_line, end_column)


@dataclass(frozen=True)
class Replace:
    """Replaces an expression by another one."""

    at: Span
    code: str


@dataclass(frozen=True)
class Tell:
    """Adds arguments to a call, and may change its method's name."""

    at: Span
    arguments: str
    method: str


@dataclass(frozen=True)
class Wrap:
    """Passes an expression, which another edit may change, to a function."""

    at: Span
    function: str


@dataclass(frozen=True)
class Delete:
    """Removes a statement; comments before it stay."""

    at: Span


@dataclass(frozen=True)
class Unwrap:
    """Replaces an `if` by the statements in it."""

    at: Span


@dataclass(frozen=True)
class Decorate:
    """Adds a decorator to a function, as the innermost one."""

    at: Span
    code: str


@dataclass(frozen=True)
class Lower:
    """Moves the decorator at `at` below the one at `below`."""

    at: Span
    below: Span


@dataclass(frozen=True)
class Iterate:
    """Turns a plain `for` over the expression at `over` into `async for`."""

    over: Span


@dataclass(frozen=True)
class Enclose:
    """Puts a computation under a lock, with a second look in it.

    `at` goes from the first statement of the look, over `test`, to `last`. Without `last`, the computation is the
    branch (`body` or `orelse`) of the `if` at `test`; else it is what comes after `test`.
    """

    at: Span
    test: Span
    last: Span | None
    branch: str
    code: str
    is_async: bool


@dataclass(frozen=True)
class Import:
    """Makes sure that `from module import name` exists; without a name, `import module`."""

    module: str
    name: str


Edit = Replace | Tell | Wrap | Delete | Unwrap | Decorate | Lower | Iterate | Enclose | Import


class NoFix(Exception):
    """Why a finding gets no fix. Raised by a rule's `fix`, shown in reports."""


@dataclass(frozen=True, kw_only=True)
class FixPlan:
    """One fix. Without `reasons` it is safe. Each reason names something that the reader must review after
    `--unsafe-fixes`.
    """

    edits: tuple[Edit, ...]
    reasons: tuple[str, ...] = field(default=())
    # What to do instead if another file forbids this one: see `private` and `key`.
    otherwise: FixPlan | None = None
    # A name that no other file may use, else there is no fix: how it is used would change.
    private: str = ""
    # A text of the replaced key that no other file may contain, else there is no fix: it may delete such keys.
    key: str = ""

    @property
    def safety(self) -> FixSafety:
        return "unsafe" if self.reasons else "safe"

    @property
    def elsewhere(self) -> dict[str, Any]:
        """What a finding must know to say whether other files forbid this fix."""
        otherwise = self.otherwise.reasons if self.otherwise is not None else ()
        return {"private": self.private, "key": self.key, "otherwise": otherwise}
