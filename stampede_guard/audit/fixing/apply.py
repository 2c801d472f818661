"""Applies plans with LibCST (the extra `stampede-guard[audit]`). It changes only what a plan names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from stampede_guard.audit.fixing.enclosing import CannotEnclose, enclosed
from stampede_guard.audit.fixing.imports import with_import, without_unused
from stampede_guard.audit.plan import (
    Decorate,
    Delete,
    Edit,
    Enclose,
    FixPlan,
    Import,
    Iterate,
    Lower,
    Replace,
    Span,
    Tell,
    Unwrap,
    Wrap,
)

_Block = cst.Module | cst.IndentedBlock
_Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement


class CannotApply(Exception):
    """A plan does not fit the text. The text stays unchanged."""


def apply(source: str, plans: Sequence[FixPlan], *, keeps: Callable[[str], bool] = lambda name: False) -> str:
    """The text with the plans applied. `keeps` returns whether other files need an import.

    Raises CannotApply.
    """
    try:
        module = cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        raise CannotApply(f"LibCST cannot read it: {error.message}") from error
    if module.code != source:
        raise CannotApply("LibCST would change more than the fix")
    try:
        return _applied(module, source, plans, keeps)
    except CannotApply:
        raise
    except CannotEnclose as error:
        raise CannotApply(str(error)) from error
    except Exception as error:  # a bug in one fix costs its finding, not the run
        raise CannotApply(f"the fix failed: {error!r}") from error


def _applied(module: cst.Module, source: str, plans: Sequence[FixPlan], keeps: Callable[[str], bool]) -> str:
    edits = [edit for plan in plans for edit in plan.edits]
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    editor = _Editor(source, [edit for edit in edits if not isinstance(edit, Import)])
    changed = wrapper.visit(editor)
    if editor.left:
        raise CannotApply("the place to change was not found again")
    for edit in edits:
        if isinstance(edit, Import):
            changed = with_import(changed, edit)
    return without_unused(changed, before=source, keeps=keeps).code


class _Editor(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, source: str, edits: Iterable[Edit]) -> None:
        super().__init__()
        self._lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self.left = set(edits)
        self._expressions = {self._at(e.at): e for e in self.left if isinstance(e, Replace | Tell)}
        self._wrapped = {self._at(e.at): e for e in self.left if isinstance(e, Wrap)}
        self._statements = {
            self._start(e.at): e for e in self.left if isinstance(e, Delete | Unwrap | Decorate)
        }
        self._enclosed = {self._start(e.at): e for e in self.left if isinstance(e, Enclose)}
        self._lowered = {self._at(e.at): e for e in self.left if isinstance(e, Lower)}
        self._loops = {self._at(e.over): e for e in self.left if isinstance(e, Iterate)}

    # -------------------------------------------------------------------------------------------- places

    def _column(self, line: int, column: int) -> int:
        """Converts a column from bytes, as `ast` counts, to characters."""
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        return len(text.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "surrogatepass"))

    def _start(self, at: Span) -> tuple[int, int]:
        return at.line, self._column(at.line, at.column)

    def _at(self, at: Span) -> tuple[int, int, int, int]:
        return (*self._start(at), at.end_line, self._column(at.end_line, at.end_column))

    def _place(self, node: cst.CSTNode) -> tuple[int, int, int, int]:
        found = self.get_metadata(PositionProvider, node)
        assert isinstance(found, CodeRange)
        return found.start.line, found.start.column, found.end.line, found.end.column

    # ------------------------------------------------------------------------------------- expressions

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        if isinstance(original_node, cst.BaseExpression) and (self._expressions or self._wrapped):
            place = self._place(original_node)
            edit, wrap = self._expressions.get(place), self._wrapped.get(place)
            assert isinstance(updated_node, cst.BaseExpression)
            if edit is not None and edit in self.left:
                self.left.discard(edit)
                updated_node = (
                    _told(edit, updated_node)
                    if isinstance(edit, Tell)
                    else _expression(edit.code, updated_node)
                )
            if wrap is not None and wrap in self.left:
                self.left.discard(wrap)
                return _wrapped(wrap, updated_node)
            if edit is not None:
                return updated_node
        left = super().on_leave(original_node, updated_node)
        assert isinstance(left, cst.CSTNode)
        return left

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.For:
        edit = self._loops.get(self._place(original_node.iter))
        if edit is None:
            return updated_node
        self.left.discard(edit)
        return updated_node.with_changes(asynchronous=cst.Asynchronous())

    # -------------------------------------------------------------------------------------- decorators

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        listed = list(updated_node.decorators)
        places = [self._place(decorator.decorator) for decorator in original_node.decorators]
        for place in places:
            edit = self._lowered.get(place)
            below = self._at(edit.below) if edit is not None else None
            if edit is not None and below in places:
                self.left.discard(edit)
                moved = listed[places.index(place)]
                anchor = listed[places.index(below)]
                listed.remove(moved)
                listed.insert(listed.index(anchor) + 1, moved)
        added = self._statements.get(self._place(original_node)[:2])
        if isinstance(added, Decorate):
            self.left.discard(added)
            listed.append(cst.Decorator(cst.parse_expression(added.code)))
        return updated_node.with_changes(decorators=listed)

    # -------------------------------------------------------------------------------------- statements

    def leave_IndentedBlock(
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        body, rest = self._block(original_node, updated_node)
        if body is None:
            return updated_node
        nothing = [cst.SimpleStatementLine([cst.Pass()])]
        return updated_node.with_changes(body=body or nothing, footer=[*rest, *updated_node.footer])

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        body, rest = self._block(original_node, updated_node)
        if body is None:
            return updated_node
        return updated_node.with_changes(body=body, footer=[*rest, *updated_node.footer])

    def _numbers(self, places: list[tuple[int, int]], edit: Enclose) -> tuple[int, int, int | None]:
        """The statements of the edit, by their place in the block: the first one, the test, the last one."""
        wanted = [self._start(edit.at), self._start(edit.test)]
        if edit.last is not None:
            wanted.append(self._start(edit.last))
        if not set(wanted) <= set(places):
            raise CannotApply("the statements to change share a line")
        first, test, *end = map(places.index, wanted)
        return first, test, end[0] if end else None

    def _block(
        self, original: _Block, updated: _Block
    ) -> tuple[list[_Statement] | None, list[cst.EmptyLine]]:
        """The statements that stay, and the comments after the last removed ones. None: nothing changes."""
        around = next((e for s in original.body if (e := self._enclosed.get(self._place(s)[:2]))), None)
        if around is not None:
            self.left.discard(around)
            places = [self._place(statement)[:2] for statement in original.body]
            return enclosed(updated, self._numbers(places, around), around), []
        wanted = [self._statements.get(self._place(statement)[:2]) for statement in original.body]
        if not any(isinstance(edit, Delete | Unwrap) for edit in wanted):
            return None, []
        body: list[_Statement] = []
        comments: list[cst.EmptyLine] = []
        for statement, edit in zip(updated.body, wanted, strict=True):
            assert isinstance(statement, _Statement)
            if isinstance(edit, Delete):
                if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) != 1:
                    raise CannotApply("the statement to remove shares its line")
                self.left.discard(edit)
                comments += _comments(statement)
                continue
            if isinstance(edit, Unwrap):
                self.left.discard(edit)
                inner = _under(statement)
                comments += _comments(statement)
            else:
                inner = [statement]
            if comments and inner:
                inner[0] = inner[0].with_changes(leading_lines=[*comments, *_lines(inner[0])])
                comments = []
            body += inner
        return body, comments


def _expression(code: str, old: cst.BaseExpression) -> cst.BaseExpression:
    new = cst.parse_expression(code)
    if getattr(old, "lpar", ()) and not getattr(new, "lpar", ()):
        new = new.with_changes(lpar=old.lpar, rpar=old.rpar)
    return new


def _told(edit: Tell, old: cst.BaseExpression) -> cst.BaseExpression:
    if not isinstance(old, cst.Call) or not isinstance(old.func, cst.Attribute) or not old.args:
        raise CannotApply("the call to change is not a call")
    new = cst.parse_expression(f"f({edit.arguments})")
    assert isinstance(new, cst.Call)
    *before, last = old.args
    apart = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    args = [
        *before,
        last.with_changes(comma=apart),
        *new.args[:-1],
        new.args[-1].with_changes(comma=last.comma),
    ]
    return old.with_changes(args=args, func=old.func.with_changes(attr=cst.Name(edit.method)))


def _wrapped(edit: Wrap, old: cst.BaseExpression) -> cst.BaseExpression:
    """Its parentheses stay outside: `return(x)` becomes `return(bool(x))`."""
    inner = old.with_changes(lpar=[], rpar=[])
    return cst.Call(cst.Name(edit.function), [cst.Arg(inner)], lpar=old.lpar, rpar=old.rpar)


def _under(statement: _Statement) -> list[_Statement]:
    if not isinstance(statement, cst.If) or not isinstance(statement.body, cst.IndentedBlock):
        raise CannotApply("the branch to unwrap is on one line")
    return [inner for inner in statement.body.body if isinstance(inner, _Statement)]


def _lines(statement: _Statement) -> Sequence[cst.EmptyLine]:
    lines: Sequence[cst.EmptyLine] = getattr(statement, "leading_lines", ())
    return lines


def _comments(statement: _Statement) -> list[cst.EmptyLine]:
    return [line for line in _lines(statement) if line.comment is not None]
