"""Get, compute, set by hand gets `with fill_lock(...)` around the computation, and a second look in it: SG201, SG203.

The cache, its key, its lifetime, its format and its errors stay as they are. The look (the get, its decoding and its
test) is repeated in the lock. So it may contain nothing that may not run twice: see `repeats`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from stampede_guard.audit.caching.fills import Fill, fills
from stampede_guard.audit.caching.locks import locks_of
from stampede_guard.audit.caching.tables import TABLE
from stampede_guard.audit.files.comments import lost_comment
from stampede_guard.audit.fixes import naming
from stampede_guard.audit.fixes.facts.repeats import is_pure, may_repeat
from stampede_guard.audit.fixes.facts.texts import source
from stampede_guard.audit.fixes.ownkeys import refuse_of_one_request
from stampede_guard.audit.plan import Enclose, FixPlan, NoFix, Span
from stampede_guard.audit.rule import Violation
from stampede_guard.audit.source.handed import handed
from stampede_guard.audit.source.model import Module, inside
from stampede_guard.audit.source.words import last, names_in, path

Fixed = Callable[[Module, Violation], FixPlan | None]

_WAITS = (
    "in one process, callers that miss wait up to 10 seconds for the first one, and keep what they hold meanwhile, for "
    "example a database connection"
)
_EMPTY = "an empty value is no hit: then callers wait for the first one, and each of them computes after it"
_ASKS_TWICE = "a miss asks the cache twice: find tests and metrics that count the gets"
_LONGEST_LOOK = 12  # lines that are repeated
_DUMPS = re.compile(r"dump|pack|encode|serial|^(?:str|list|dict|json)$")
_SAYS_IF_EMPTY = frozenset("get len isinstance bool any all".split())
_PARTS = frozenset("namespace version group region prefix category base_key".split())
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_KEYS = (ast.Constant, ast.Name, ast.Attribute, ast.JoinedStr, ast.BinOp, ast.Call, ast.Subscript, ast.Tuple)


def or_by_fill_lock(best: Fixed) -> Fixed:
    """The fix that does best, or else a lock: where that one is not possible, or another file forbids it."""

    def fixed(module: Module, hit: Violation) -> FixPlan | None:
        if any(fill.read.call is hit.node and fill.read.topic == TABLE for fill in fills(module)):
            raise NoFix("its cache is a table, and a transaction decides when others see the row")
        try:
            plan = best(module, hit)
        except NoFix:
            plan = None
        if plan is None or lost_comment(module.source, module.memo, plan):
            return by_fill_lock(module, hit)
        try:
            return replace(plan, otherwise=by_fill_lock(module, hit))
        except NoFix:
            return plan

    return fixed


def by_fill_lock(module: Module, hit: Violation) -> FixPlan:
    """Raises NoFix."""
    fill = next((fill for fill in fills(module) if fill.read.call is hit.node), None)
    if fill is None:
        raise NoFix("its get and set are in different functions")
    _refuse_other_stores(module, fill)
    block, first, write = _common(module, fill)
    look, test, branch = _look(module, fill, block, first, write)
    if not all(may_repeat(fill, statement) for statement in look):
        raise NoFix("what it does between the get and the test may not run twice")
    if _is_conditional(module, fill, look[0]):
        raise NoFix("it does not always ask the cache: callers that do not would wait, too")
    if _length(look, test, branch) > _LONGEST_LOOK:
        raise NoFix("the test and the answer on a hit are too long to be repeated in a lock")
    end = block[write] if branch is None else test
    _refuse_inside(module, fill, look, end)
    _refuse_computed_before(fill, look[0])
    _refuse_seldom_stored(module, fill, look[-1], block[write])
    name = naming.fill_lock(module)
    if name is None:
        raise NoFix("the file uses the name fill_lock for something else")
    given = ", ".join([_title(fill), *(source(module, part) for part in _keys(fill))])
    whole = Span.of(look[0])
    stop = Span.of(end)
    edit = Enclose(
        at=Span(whole.line, whole.column, stop.end_line, stop.end_column),
        test=Span.of(test),
        last=stop if branch is None else None,
        branch=branch or "",
        code=f"{name.code}({given})",
        is_async=fill.function.is_async,
    )
    return FixPlan(
        edits=(edit, *name.imports), reasons=(_WAITS, _ASKS_TWICE, *((_EMPTY,) if _by_truth(test) else ()))
    )


def _keys(fill: Fill) -> list[ast.expr]:
    """The key, and the namespace or the like that the get also names. A default comes from the module, or is None."""
    call = fill.read.call
    if not isinstance(call, ast.Call):
        return list(fill.read.key)
    own = fill.function.parameters | {name for _n, names, _v in fill.function.bindings for name in names}
    more: list[ast.expr] = [given for given in call.args if isinstance(given, ast.Name) and given.id in own]
    more += [keyword.value for keyword in call.keywords if keyword.arg in _PARTS]
    return [*fill.read.key, *(part for part in more if part not in fill.read.key)]


def _title(fill: Fill) -> str:
    """The function's name: other functions may use the same key, and run inside this one."""
    scopes = [*fill.function.chain()]
    names = [scope.name for scope in reversed(scopes)]
    cls = next((scope.cls for scope in scopes if scope.cls is not None), None)
    return f'"{".".join([cls.name, *names] if cls is not None else names)}"'


def _refuse_other_stores(module: Module, fill: Fill) -> None:
    read, write = fill.read, fill.write
    if not read.key or read.what == "read-many" or write.what == "write-many":
        raise NoFix("it reads or stores many keys at once")
    if not all(isinstance(part, _KEYS) and is_pure(fill, part) for part in read.key):
        raise NoFix("its key is made by code that may not run twice")
    refuse_of_one_request(read.receiver)
    if any(isinstance(call, ast.Call) and handed(call) for call in (read.call, write.call)):
        raise NoFix("another thread or a later task asks the cache")
    if "pipe" in f"{read.receiver} {write.receiver}".lower():
        raise NoFix("a pipeline stores the value later, after the lock")
    for node in module.up(write.call):
        if isinstance(node, ast.Call | ast.Lambda):
            raise NoFix("another task or a callback stores the value later, after the lock")
        if isinstance(node, ast.stmt):
            break
    awaited = isinstance(module.parents.get(read.call), ast.Await)
    if fill.function.is_async and awaited and not isinstance(module.parents.get(write.call), ast.Await):
        raise NoFix("the set is not awaited: it may end after the lock")


def _common(module: Module, fill: Fill) -> tuple[list[ast.stmt], int, int]:
    """The innermost block with the get and the set, and the places of their statements in it."""
    node: ast.AST | None = fill.read.call
    while node is not None:
        node = module.parents.get(node)
        for block in _blocks(node):
            reads = [i for i, s in enumerate(block) if inside(fill.read.call, s)]
            writes = [i for i, s in enumerate(block) if inside(fill.write.call, s)]
            if reads and writes:
                return block, reads[0], writes[0]
        if node is fill.function.node:
            break
    raise NoFix("its get and its set are in different branches")


def _blocks(node: ast.AST | None) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block


def _look(
    module: Module, fill: Fill, block: list[ast.stmt], first: int, write: int
) -> tuple[list[ast.stmt], ast.stmt, str | None]:
    """The statements to repeat, the one that decides, and the branch with the computation; None: it comes after."""
    if first == write:
        test = block[first]
        if not isinstance(test, ast.If) or not inside(fill.read.call, test.test):
            raise NoFix("one statement gets and sets")
        return [test], test, _branch(module, fill, test)
    told = _told(fill, block[first], set())
    decides = block[write]
    between = block[first:write]
    if all(may_repeat(fill, statement) for statement in between) and isinstance(decides, ast.If):
        known = told
        for statement in between:
            known = _told(fill, statement, known)
        if known & names_in(decides.test):
            return [*between, decides], decides, _branch(module, fill, decides)
    for place in range(first, write):
        test = block[place]
        if _leaves(test) and (place == first or told & names_in(test)):
            return block[first : place + 1], test, None
        told = _told(fill, test, told)
    raise NoFix("the function computes and stores in other steps than get, test, compute, set")


def _told(fill: Fill, statement: ast.stmt, known: set[str]) -> set[str]:
    """The names that hold the get's result, or what was made of it, after a statement."""
    return known | {
        name
        for node, names, value in fill.function.bindings
        if inside(node, statement) and (inside(fill.read.call, value) or known & names_in(value))
        for name in names
    }


def _length(look: list[ast.stmt], test: ast.stmt, branch: str | None) -> int:
    """The lines that are repeated: without the branch that is enclosed."""
    enclosed = getattr(test, branch) if branch is not None else []
    lines = (look[-1].end_lineno or 0) - look[0].lineno + 1
    return lines - ((enclosed[-1].end_lineno or 0) - enclosed[0].lineno + 1 if enclosed else 0)


def _leaves(statement: ast.stmt) -> bool:
    """Whether it is an `if`, or has one, that leaves on a hit."""
    return not isinstance(statement, ast.For | ast.AsyncFor | ast.While) and any(
        isinstance(node, ast.If) and any(isinstance(s, _EXITS) for s in (node.body[-1], *node.orelse[-1:]))
        for node in ast.walk(statement)
    )


def _branch(module: Module, fill: Fill, test: ast.If) -> str:
    if _is_elif(module, test):
        raise NoFix("the test is an elif")
    if any(inside(fill.write.call, statement) for statement in test.body):
        return "body"
    if test.orelse and isinstance(test.orelse[0], ast.If) and _is_elif(module, test.orelse[0]):
        raise NoFix("the computation is in an elif")
    return "orelse"


def _is_elif(module: Module, statement: ast.stmt) -> bool:
    line = module.source.split("\n")[statement.lineno - 1].encode()
    return line[statement.col_offset :].startswith(b"elif")


def _is_conditional(module: Module, fill: Fill, first: ast.stmt) -> bool:
    """Whether the look may run without the get."""
    below: ast.AST = fill.read.call
    for node in module.up(fill.read.call):
        match node:
            case ast.If(test=test) | ast.IfExp(test=test):
                if below is not test:
                    return True
            case ast.BoolOp(values=values):
                if below is not values[0]:
                    return True
        if node is first:
            return False
        below = node
    return False


def _refuse_inside(module: Module, fill: Fill, look: list[ast.stmt], end: ast.stmt) -> None:
    """What must not be put under the lock."""
    if any(inside(fill.write.call, node) for node in locks_of(module, fill.function)):
        raise NoFix("there is a lock already: look again inside it, before the computation")
    start = Span.of(look[0])
    for node in ast.walk(fill.function.node):
        if isinstance(node, ast.Yield | ast.YieldFrom) and start.line <= node.lineno <= (end.end_lineno or 0):
            raise NoFix("it yields inside: the lock would stay taken meanwhile")


def _refuse_computed_before(fill: Fill, first: ast.stmt) -> None:
    """The lock must enclose the computation."""
    value = fill.write.value
    assert value is not None
    stored = names_in(value)
    inside_it = any(
        set(names) & stored and (node.lineno, node.col_offset) >= (first.lineno, first.col_offset)  # type: ignore[attr-defined]
        for node, names, _v in fill.function.bindings
    )
    made = any(
        isinstance(node, ast.Call) and not _DUMPS.search(last(path(node.func))) for node in ast.walk(value)
    )
    if not inside_it and not made:
        raise NoFix("it computes before the get")


def _refuse_seldom_stored(module: Module, fill: Fill, test: ast.stmt, last_one: ast.stmt) -> None:
    """Where a function decides whether the value is stored, callers could wait for each other and gain nothing."""
    for node in module.up(fill.write.call):
        if isinstance(node, ast.If) and node is not test:
            for part in ast.walk(node.test):
                asks = isinstance(part, ast.Call) and last(path(part.func)) not in _SAYS_IF_EMPTY
                if asks or isinstance(part, ast.Await):
                    raise NoFix("not each value is stored: callers would wait in vain for the others")
        if node is test or node is last_one:
            return


def _by_truth(test: ast.stmt) -> bool:
    """`if found:`, `if not found:`."""
    condition = test.test if isinstance(test, ast.If) else None
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        condition = condition.operand
    return isinstance(condition, ast.Name | ast.NamedExpr)
