"""What a fix does, as data: edits by place in the file, how safe they are, and what to look at if they are not."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from stampede_guard.audit.finding import FixSafety


@dataclass(frozen=True, order=True)
class Span:
    """A place as `ast` counts: lines from 1, columns from 0 in UTF-8 bytes."""

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
    """An expression becomes another one."""

    at: Span
    code: str


@dataclass(frozen=True)
class Tell:
    """A call gets more arguments, and perhaps another method's name."""

    at: Span
    arguments: str
    method: str


@dataclass(frozen=True)
class Delete:
    """A statement goes; comments before it stay."""

    at: Span


@dataclass(frozen=True)
class Unwrap:
    """An `if` becomes the statements under it."""

    at: Span


@dataclass(frozen=True)
class Decorate:
    """A function gets a decorator, the one nearest to it."""

    at: Span
    code: str


@dataclass(frozen=True)
class Lower:
    """The decorator at `at` moves below the one at `below`."""

    at: Span
    below: Span


@dataclass(frozen=True)
class Iterate:
    """A plain `for` over what stands at `over` becomes `async for`."""

    over: Span


@dataclass(frozen=True)
class Import:
    """`from module import name` must be there; without a name, `import module`."""

    module: str
    name: str


Edit = Replace | Tell | Delete | Unwrap | Decorate | Lower | Iterate | Import


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One fix. Without `reasons` it is safe; with any, each says what `--unsafe-fixes` would leave to the reader."""

    edits: tuple[Edit, ...]
    reasons: tuple[str, ...] = field(default=())

    @property
    def safety(self) -> FixSafety:
        return "unsafe" if self.reasons else "safe"
