"""Flags of work that is under way, by their shape: found unset, set to a constant, and lifted afterwards."""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.caching import lockuse
from stampede_guard.audit.caching.accesses import Access
from stampede_guard.audit.caching.keys import same_key, skeleton
from stampede_guard.audit.caching.receivers import kind
from stampede_guard.audit.caching.work import calls_work
from stampede_guard.audit.source.branches import leaves
from stampede_guard.audit.source.model import Function, Module, argument, inside, position
from stampede_guard.audit.source.words import is_cachy, names_in, path, text_of, words

# A method that asks whether work is under way.
ASKED = tuple(
    re.compile(rb"%b_\w{0,80}(?:running|locked|lock|busy|progress|processing)\(" % asks)
    for asks in (b"is", b"are", b"has")
)
_ASKED = re.compile(r"(?:^|_)(?:is|are|has)_(?:\w+_)?(?:running|locked|lock|busy|progress|processing)$")
_TAKES = frozenset("lock mark set start begin claim reserve".split())
_LIFTS = frozenset("delete remove clear unset release drop unlink reset".split())
# Words in -ing that name no work.
_NOUNS = frozenset(
    "setting ranking rating pricing string listing building booking pending mapping thing meeting warning trending "
    "heading billing remaining missing existing following typing nothing something everything onboarding marketing "
    "shipping timing landing opening closing evening morning spring during".split()
)
_TELLS = frozenset("send notify email mail alert publish deliver charge delay apply enqueue".split())
_TIMES = frozenset("now utcnow time isoformat timestamp str int strftime today".split())
_SHORTEST = 6  # letters of such a word
_TELLING = 4  # letters of the constant part of a key


def is_under_way(function: Function, key: ast.expr, taken: Access) -> bool:
    """`cache.set("regenerating", True)`: the key says what is being done, and the constant that it is."""
    if not _is_raised(taken):
        return False
    return any(
        word.endswith("ing") and len(word) >= _SHORTEST and word not in _NOUNS
        for part in re.split(r"[^A-Za-z0-9_]+", lockuse.key_text(function, key))
        for word in words(part)
    )


def is_put_down(module: Module, function: Function, read: Access, taken: Access) -> bool:
    """A constant is set next after the test. The same key is deleted or set to a falsy constant after the work,
    here or in another function of the file.
    """
    mine = skeleton(function, read.key[0])
    if sum(letter.isalpha() for letter in mine) < _TELLING:
        return False
    if not _is_raised(taken) and not _refuses(function, read, taken):
        return False
    between = position(read.call), position(taken.call)
    if any(
        between[0] < position(call) < between[1] and not _says_something(call) and calls_work(call)
        for call in function.calls
        if call is not read.call and not inside(read.call, call) and not inside(call, read.call)
    ):
        return False
    for other in lockuse.siblings(module, function):
        for call in other.calls:
            if other is function and position(call) <= position(taken.call):
                continue
            if call.args and _lifts(call) and skeleton(other, call.args[0]) == mine:
                return True
    return False


def _refuses(function: Function, read: Access, taken: Access) -> bool:
    """`if redis.exists(key): raise Busy`: the presence counts, whatever value is set."""
    if read.what != "exists" or taken.value is None or calls_work(taken.value):
        return False
    return any(
        isinstance(test, ast.If)
        and inside(read.call, test.test)
        and not _says_unset(test.test)
        and not test.orelse
        and _ends_without_a_value(test.body[-1])
        for test in function.tests
    )


def _is_raised(taken: Access) -> bool:
    """Whether a truthy constant is set."""
    value = taken.value
    if isinstance(value, ast.Tuple):  # a setter of the project, perhaps with its key
        value = value.elts[-1] if len(value.elts) < 3 else None
    return isinstance(value, ast.Constant) and bool(value.value)


def _says_something(call: ast.Call) -> bool:
    return path(call.func).partition(".")[0].lower() in ("logger", "log", "logging", "print", "messages")


def _lifts(call: ast.Call) -> bool:
    name = path(call.func).rpartition(".")[2]
    said = words(name)
    if said[:1] and said[0] in _LIFTS and (isinstance(call.func, ast.Attribute) or is_cachy(name)):
        return True
    value = argument(call, 1, "value", "val")
    return said[:1] == ("set",) and isinstance(value, ast.Constant) and not value.value


def asked_then_taken(module: Module, function: Function) -> ast.Call | None:
    """`if cache.task_is_running(name): return`, and later `cache.lock_task(name)`, whose answer nobody reads."""
    if not _is_asked(module, function):
        return None
    asking = [
        call
        for call in function.calls
        if isinstance(call.func, ast.Attribute)
        and _ASKED.search(call.func.attr)
        and kind(module, call.func.value, function) == "cache"
        and any(isinstance(test, ast.If) and inside(call, test.test) for test in function.tests)
    ]
    for first in asking:
        for call in function.calls:
            if position(call) > position(first) and _takes(module, call) and _is_same(function, first, call):
                return first
    return None


def _is_asked(module: Module, function: Function) -> bool:
    return function in module.functions_with(_ASKS_IN_TEXT)


_ASKS_IN_TEXT = re.compile("|".join(one.pattern.decode() for one in ASKED))


def _takes(module: Module, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    name = call.func.attr
    statement = module.parents.get(call)
    if isinstance(statement, ast.Await):
        statement = module.parents.get(statement)
    busy = lockuse.says_lock(name) or lockuse.says_busy(name)
    return words(name)[:1] != () and words(name)[0] in _TAKES and busy and isinstance(statement, ast.Expr)


def _is_same(function: Function, first: ast.Call, second: ast.Call) -> bool:
    if not isinstance(first.func, ast.Attribute) or not isinstance(second.func, ast.Attribute):
        return False
    if text_of(first.func.value) != text_of(second.func.value):
        return False
    if not first.args or not second.args:
        return not first.args and not second.args
    return same_key(function, (first.args[0],), (second.args[0],))


def is_taken_at_once(module: Module, function: Function, read: ast.expr, taken: Access) -> bool:
    """`if cache.get(key): return`, then a truthy constant is set without another question, and work is done. The
    set may also stand under `if not flag:` or in `else:`.
    """
    if not _is_raised(taken):
        return False
    flags = {name for _node, names, value in function.bindings if bare(value) is read for name in names}
    statement = module.statement(taken.call)
    for test in function.tests:
        if not isinstance(test, ast.If) or not (inside(read, test.test) or flags & names_in(test.test)):
            continue
        block = _following(module, test, statement, _says_unset(test.test))
        if block is not None and any(_works(node, read, taken.call) for node in block):
            return True
    return False


def is_compared(function: Function, read: Access, taken: Access) -> bool:
    """`if cache.get(key) == IN_PROGRESS: return ...`, the same constant is set, and lifted if the work fails."""
    value = taken.value
    if value is None or not (isinstance(value, ast.Constant) or path(value).rpartition(".")[2].isupper()):
        return False
    flags = {name for _node, names, bound in function.bindings if bare(bound) is read.call for name in names}
    for test in function.tests:
        if (
            not isinstance(test, ast.If)
            or not isinstance(test.test, ast.Compare)
            or not leaves(test.body[-1])
        ):
            continue
        asked, other = test.test.left, test.test.comparators[0]
        if (
            isinstance(test.test.ops[0], ast.Eq)
            and (bare(asked) is read.call or path(asked) in flags)
            and ast.dump(other) == ast.dump(value)
            and position(test) < position(taken.call)
        ):
            return any(
                call.args
                and position(call) > position(taken.call)
                and same_key(function, read.key[:1], (call.args[0],))
                for call in lockuse.deletes(function)
            )
    return False


def tells_once(module: Module, function: Function, read: Access, taken: Access) -> bool:
    """`if not cache.get(key): send_warning(...); cache.set(key, now)`: a mark that a message was sent."""
    if taken.value is None or not _is_known_before(function, taken.value, read.call):
        return False
    flags = {name for _node, names, value in function.bindings if bare(value) is read.call for name in names}
    statement = module.statement(taken.call)
    for test in function.tests:
        if not isinstance(test, ast.If) or not (inside(read.call, test.test) or flags & names_in(test.test)):
            continue
        block = _following(module, test, statement, _says_unset(test.test)) or []
        if any(_tells(node) and position(node) < position(statement) for node in block):
            return True
    return False


def _is_known_before(function: Function, value: ast.expr, read: ast.expr) -> bool:
    """Whether a value says nothing of what was done after the read: a constant, a time, a parameter."""
    made = {
        name for node, names, _value in function.bindings if position(node) > position(read) for name in names
    }
    called = {path(node.func).rpartition(".")[2] for node in ast.walk(value) if isinstance(node, ast.Call)}
    return called <= _TIMES and not made & names_in(value)


def _tells(statement: ast.stmt) -> bool:
    """`send_mail(...)`, `await notify(user)`, `task.delay(id)`: a statement, whose result nobody needs."""
    call = bare(statement.value) if isinstance(statement, ast.Expr) else None
    said = words(path(call.func).rpartition(".")[2]) if isinstance(call, ast.Call) else ()
    return said[:1] != () and said[0] in _TELLS


def bare(value: ast.expr) -> ast.expr:
    return value.value if isinstance(value, ast.Await) else value


def _says_unset(test: ast.expr) -> bool:
    match test:
        case ast.UnaryOp(op=ast.Not()) | ast.Compare(ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return True
        case _:
            return False


def _following(module: Module, test: ast.If, statement: ast.AST, unset: bool) -> list[ast.stmt] | None:
    """The statements of a caller that found no flag, if the set is one of them and nothing is decided before it."""
    if unset:
        block = test.body
    elif test.orelse:
        block = test.orelse
    elif _ends_without_a_value(test.body[-1]):
        around = getattr(module.parents.get(test), "body", [])
        block = around[around.index(test) + 1 :] if test in around else []
    else:
        return None
    if statement not in block:
        return None
    before = block[: block.index(statement)]
    decided = any(isinstance(node, ast.If | ast.For | ast.While | ast.Try | ast.Return) for node in before)
    return None if decided else block


def _ends_without_a_value(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return):
        return statement.value is None or isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Continue | ast.Raise)


def _works(statement: ast.stmt, read: ast.expr, taken: ast.expr) -> bool:
    return any(
        isinstance(node, ast.Call)
        and node not in (read, taken)
        and not _says_something(node)
        and calls_work(node, (read, taken))
        for node in ast.walk(statement)
    )


def worked_after(module: Module, function: Function, taken: Access) -> list[ast.Call]:
    """The outermost calls that do work after the set, in its own block."""
    statement = module.statement(taken.call)
    around = module.parents.get(statement)
    blocks = [getattr(around, name, []) for name in ("body", "orelse", "handlers", "finalbody")]
    block = next((block for block in blocks if statement in block), [])
    after = block[block.index(statement) + 1 :] if block else []
    found: list[ast.Call] = []
    for call in sorted(function.calls, key=position):
        if not any(inside(call, node) for node in after) or _says_something(call) or not calls_work(call):
            continue
        if not any(inside(call, outer) for outer in found):
            found.append(call)
    return found
