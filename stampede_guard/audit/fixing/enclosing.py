"""Puts statements of a block under a `with`, after a second look. The look is copied without its own comment lines."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from stampede_guard.audit.plan import Enclose

_Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement


class CannotEnclose(Exception):
    """The block is not as the plan says."""


class _NoCommentLines(cst.CSTTransformer):
    def leave_EmptyLine(
        self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine
    ) -> cst.EmptyLine | cst.RemovalSentinel:
        return cst.RemoveFromParent()


def enclosed(
    block: cst.Module | cst.IndentedBlock, numbers: tuple[int, int, int | None], edit: Enclose
) -> list[_Statement]:
    """The block's statements afterwards. `numbers`: the places of the look's first statement, the test, and the last
    statement of the computation, if that comes after the test. Raises CannotEnclose.
    """
    body = [statement for statement in block.body if isinstance(statement, _Statement)]
    first, test, end = numbers
    look = [_copy(statement) for statement in body[first : test + 1]]
    if end is not None:
        computed = body[test + 1 : end + 1]
        if not computed:
            raise CannotEnclose("nothing is computed after the test")
        blank, kept = _apart(_lines(computed[0]))
        inner = [computed[0].with_changes(leading_lines=kept), *computed[1:]]
        return [*body[: test + 1], _with(edit, [*look, *inner], blank), *body[end + 1 :]]
    decides = body[test]
    if not isinstance(decides, cst.If):
        raise CannotEnclose("the test is no if")
    again = [*look[:-1], decides.with_changes(leading_lines=[])]
    if edit.branch == "body":
        changed = decides.with_changes(body=_block(decides.body, _with(edit, again, [])))
    elif isinstance(decides.orelse, cst.Else):
        other = decides.orelse.with_changes(body=_block(decides.orelse.body, _with(edit, again, [])))
        changed = decides.with_changes(orelse=other)
    else:
        raise CannotEnclose("the test has no else")
    return [*body[:test], changed, *body[test + 1 :]]


def _with(edit: Enclose, body: Sequence[_Statement], before: Sequence[cst.EmptyLine]) -> cst.With:
    return cst.With(
        items=[cst.WithItem(cst.parse_expression(edit.code))],
        body=cst.IndentedBlock(body),
        asynchronous=cst.Asynchronous() if edit.is_async else None,
        leading_lines=before,
    )


def _block(old: cst.BaseSuite, statement: _Statement) -> cst.BaseSuite:
    if not isinstance(old, cst.IndentedBlock):
        raise CannotEnclose("the computation is on the line of its test")
    return cst.IndentedBlock([statement], indent=old.indent)


def _copy(statement: _Statement) -> _Statement:
    copied = statement.deep_clone().visit(_NoCommentLines())
    assert isinstance(copied, _Statement)
    return copied


def _apart(lines: Sequence[cst.EmptyLine]) -> tuple[list[cst.EmptyLine], list[cst.EmptyLine]]:
    """The blank lines at the start, and the comments after them."""
    count = next((i for i, line in enumerate(lines) if line.comment is not None), len(lines))
    return list(lines[:count]), list(lines[count:])


def _lines(statement: _Statement) -> Sequence[cst.EmptyLine]:
    lines: Sequence[cst.EmptyLine] = getattr(statement, "leading_lines", ())
    return lines
