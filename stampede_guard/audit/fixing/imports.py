"""Imports of a file during a fix: adds one in sorted place, and removes those that nothing uses any more."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import libcst as cst

from stampede_guard.audit.plan import Import
from stampede_guard.audit.source.newer import parse

_CODE_LIKE = re.compile(r"[\w\s\[\],.|\"']{1,200}")


@dataclass(frozen=True)
class _Line:
    """A top-level import: its place in the module's body, and the module that it imports from."""

    index: int
    node: cst.Import | cst.ImportFrom
    module: str
    is_relative: bool
    # The number of its block: a blank line separates blocks.
    block: int

    @property
    def is_foreign(self) -> bool:
        root = self.module.partition(".")[0]
        return not self.is_relative and root not in sys.stdlib_module_names and root != "__future__"


def with_import(module: cst.Module, wanted: Import) -> cst.Module:
    return _with_from(module, wanted) if wanted.name else _with_module(module, wanted.module)


def _with_module(module: cst.Module, name: str) -> cst.Module:
    """Adds `import name`, of the standard library, in the place of such imports."""
    lines = _imports(module)
    plain = [line for line in lines if isinstance(line.node, cst.Import)]
    if any(
        _bound(alias) == name
        for line in plain
        if isinstance(line.node, cst.Import)
        for alias in line.node.names
    ):
        return module
    body = list(module.body)
    new = cst.parse_statement(f"import {name}", config=module.config_for_parsing)
    assert isinstance(new, cst.SimpleStatementLine)
    blank = [cst.EmptyLine(indent=False)]
    future = [line for line in lines if line.module == "__future__"]
    near = [line for line in lines if not (line.is_foreign or line.is_relative or line in future)]
    before = [line for line in near if line in plain and line.module.lower() < name]
    if before:
        body.insert(before[-1].index + 1, new)
        return module.with_changes(body=body)
    if near:
        index, taken = near[0].index, _leading(body[near[0].index])
        body[index] = body[index].with_changes(leading_lines=[])
    else:
        index = future[-1].index + 1 if future else _after_docstring(body)
        taken = blank if index else _leading(body[index]) if body else []
        if index < len(body) and (not index or not _leading(body[index])):
            body[index] = body[index].with_changes(leading_lines=blank)
    body.insert(index, new.with_changes(leading_lines=taken))
    return module.with_changes(body=body)


def _with_from(module: cst.Module, wanted: Import) -> cst.Module:
    lines = _imports(module)
    for line in lines:
        if isinstance(line.node, cst.ImportFrom) and line.module == wanted.module and not line.is_relative:
            if not isinstance(line.node.names, cst.ImportStar):
                return _with_name(module, line, wanted.name)
    body = list(module.body)
    new = cst.parse_statement(f"from {wanted.module} import {wanted.name}", config=module.config_for_parsing)
    assert isinstance(new, cst.SimpleStatementLine)
    index, takes_blank = _place(lines, wanted.module)
    if index is None:
        index = _after_docstring(body)
        blank = [cst.EmptyLine(indent=False)] if index else []
        body.insert(index, new.with_changes(leading_lines=blank))
        if index + 1 < len(body) and not _leading(body[index + 1]):
            body[index + 1] = body[index + 1].with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    elif takes_blank:
        # It becomes the first of its block and takes over the lines before that block.
        new = new.with_changes(leading_lines=_leading(body[index]))
        body[index] = body[index].with_changes(leading_lines=[])
        body.insert(index, new)
    else:
        alone = not any(line.is_foreign for line in lines)
        body.insert(index, new.with_changes(leading_lines=[cst.EmptyLine(indent=False)] if alone else []))
    return module.with_changes(body=body)


def _place(lines: list[_Line], module: str) -> tuple[int | None, bool]:
    """The index in the body, and whether the new import goes before the first line of a block."""
    foreign = [line for line in lines if line.is_foreign]
    if foreign:
        block = [line for line in foreign if line.block == foreign[0].block]
        before = [
            line
            for line in block
            if isinstance(line.node, cst.Import) or line.module.lower() < module.lower()
        ]
        if before:
            return before[-1].index + 1, False
        return block[0].index, True
    near = [line for line in lines if not line.is_relative]
    if near:
        return near[-1].index + 1, False
    return None, False


def _imports(module: cst.Module) -> list[_Line]:
    """The imports at the start of the module."""
    found: list[_Line] = []
    block = 0
    for index, statement in enumerate(module.body):
        node = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if not isinstance(node, cst.Import | cst.ImportFrom):
            if index == 0 and _is_text(statement):
                continue
            break
        block += any(line.comment is None for line in _leading(statement))
        if isinstance(node, cst.ImportFrom):
            name = _dotted(node.module) if node.module is not None else ""
            found.append(_Line(index, node, name, bool(node.relative), block))
        else:
            found.append(_Line(index, node, _dotted(node.names[0].name), False, block))
    return found


def _after_docstring(body: Sequence[cst.BaseStatement]) -> int:
    return 1 if body and _is_text(body[0]) else 0


def _is_text(statement: cst.BaseStatement) -> bool:
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and isinstance(statement.body[0], cst.Expr)
        and isinstance(statement.body[0].value, cst.SimpleString | cst.ConcatenatedString)
    )


def _leading(statement: cst.CSTNode) -> Sequence[cst.EmptyLine]:
    lines: Sequence[cst.EmptyLine] = getattr(statement, "leading_lines", ())
    return lines


def _dotted(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Attribute):
        return f"{_dotted(node.value)}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else ""


def _with_name(module: cst.Module, line: _Line, name: str) -> cst.Module:
    assert isinstance(line.node, cst.ImportFrom) and not isinstance(line.node.names, cst.ImportStar)
    names = list(line.node.names)
    if any(_dotted(alias.name) == name and alias.asname is None for alias in names):
        return module
    at = next(
        (i for i, alias in enumerate(names) if _dotted(alias.name).islower() and _dotted(alias.name) > name),
        len(names),
    )
    between = names[0].comma if len(names) > 1 else _apart(line.node)
    new = cst.ImportAlias(cst.Name(name))
    if at == len(names):
        new = new.with_changes(comma=names[-1].comma)
        names[-1] = names[-1].with_changes(comma=between)
    else:
        new = new.with_changes(comma=between)
    names.insert(at, new)
    return _with_node(module, line.index, line.node.with_changes(names=names))


def _apart(node: cst.ImportFrom) -> cst.Comma:
    """The comma after a single name: the new name goes on its own line if that name is on its own line."""
    opened = node.lpar.whitespace_after if node.lpar is not None else None
    if isinstance(opened, cst.ParenthesizedWhitespace):
        return cst.Comma(whitespace_after=opened)
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _with_node(module: cst.Module, index: int, node: cst.Import | cst.ImportFrom) -> cst.Module:
    body = list(module.body)
    statement = body[index]
    assert isinstance(statement, cst.SimpleStatementLine)
    body[index] = statement.with_changes(body=[node, *statement.body[1:]])
    return module.with_changes(body=body)


# --------------------------------------------------------------------------------------------- unused imports


def without_unused(module: cst.Module, *, before: str, keeps: Callable[[str], bool]) -> cst.Module:
    """Removes imports that the text used before and does not use any more. Other imports stay."""
    used = _used(before) - _used(module.code)
    gone = {name for name in used if not keeps(name)}
    if not gone:
        return module
    for line in reversed(_imports(module)):
        module = _without_names(module, line, gone)
    return module


def _used(source: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # a name in __all__, or in a text annotation
            if _CODE_LIKE.fullmatch(node.value):
                found.update(re.findall(r"\w+", node.value))
    return found


def _without_names(module: cst.Module, line: _Line, gone: set[str]) -> cst.Module:
    statement = module.body[line.index]
    assert isinstance(statement, cst.SimpleStatementLine)
    if len(statement.body) != 1 or isinstance(line.node.names, cst.ImportStar):
        return module
    if "noqa" in module.code_for_node(statement.trailing_whitespace):
        return module
    kept = [alias for alias in line.node.names if _bound(alias) not in gone]
    if len(kept) == len(line.node.names):
        return module
    if kept:
        kept[-1] = kept[-1].with_changes(comma=line.node.names[-1].comma)
        return _with_node(module, line.index, line.node.with_changes(names=kept))
    body = list(module.body)
    del body[line.index]
    if line.index == 0 and body:
        comments = [*_leading(statement), *_leading(body[0])]
        while comments and comments[0].comment is None:
            del comments[0]
        body[0] = body[0].with_changes(leading_lines=comments)
    elif line.index < len(body):
        following = body[line.index]
        lines = [*_leading(statement), *_leading(following)] if not _leading(following) else [
            *(empty for empty in _leading(statement) if empty.comment is not None), *_leading(following),
        ]  # fmt: skip
        body[line.index] = following.with_changes(leading_lines=lines)
    return module.with_changes(body=body)


def _bound(alias: cst.ImportAlias) -> str:
    if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
        return alias.asname.name.value
    return _dotted(alias.name).partition(".")[0]
