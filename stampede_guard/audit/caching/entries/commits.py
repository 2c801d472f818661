"""Deletions that run before the new row is visible: a reader in between stores the old value again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.entries.deletions import Deletion, deletions, waits
from stampede_guard.audit.caching.entries.unended import left_open, of_the_request
from stampede_guard.audit.source.model import Function, Module, inside, position
from stampede_guard.audit.source.words import last, path, words

_COMMITS = frozenset(("commit",))
_WRITES = frozenset(
    "save create update delete add execute bulk_create bulk_update get_or_create update_or_create add_all merge "
    "insert executemany delete_all".split()
)
# `pre_save` and `post_save`, `BEFORE_DELETE` and `AFTER_DELETE`, `pre_remove` of `m2m_changed`.
_CHANGES = ("save", "delete", "add", "remove", "clear", "SAVE", "CREATE", "UPDATE", "DELETE")
# Names that say nothing of what an entry is about.
_COMMON = frozenset("str int settings app cls".split())
# And those that say nothing of what a row that is made or deleted is about.
_OF_ALL = frozenset("request self models db session logger cache redis user".split())
_MAKES = frozenset("create acreate get_or_create aget_or_create update_or_create bulk_create".split())
_HOPS = 2
_BLOCKS = ("atomic", "transaction", "begin", "begin_nested")
_BLOCKS_OF = ("transaction", "session", "db", "conn", "connection", "engine")


_SAYS = re.compile(r"^(?:\w+\.)*(?:log\w*|messages|time|asyncio|sentry_sdk|super)\b", re.IGNORECASE)


def too_early(module: Module, function: Function) -> Iterator[tuple[Deletion, str]]:
    """The deletions of a function that come before what they are for, each with the reason."""
    found = _at_once(module, function)
    if not found:
        return
    if _runs_before_saving(module, function):
        yield from ((one, "before the row is saved") for one in found[:1])
        return
    end = _last_commit(module, function)
    for one in found:
        reason = _in_a_transaction(module, function, one.call)
        if (
            not reason
            and end is not None
            and position(one.call) < position(end)
            and _follows(module, end, one.call)
        ):
            reason = f"before {_said(end)}()"
        if reason and not any(_is_after(module, function, other, one, end) for other in found):
            yield one, reason
        elif not reason and end is None and _block(module, function, one.call) is None:
            why = _before_a_write(module, function, one, found)
            if why:
                yield one, why
            else:
                yield from ((one, why) for why in _left_to_others(module, function, one))


def _left_to_others(module: Module, function: Function, one: Deletion) -> Iterator[str]:
    """Nothing in the function ends the transaction."""
    if left_open(module, function, one.call):
        yield "before the session is committed, which this function leaves to its callers"
    elif of_the_request(module, function):
        yield "inside the request's transaction (ATOMIC_REQUESTS)"


def _before_a_write(module: Module, function: Function, one: Deletion, found: list[Deletion]) -> str:
    """`cache.delete(f"page:{page.id}")`, and then `page.save()`, which is committed at once, or an upload."""
    about = _roots(one.key)
    for call in function.calls:
        if position(call) <= position(one.call) or not (
            (_writes(call) and about & _roots(call))
            or (_makes_or_ends(call) and (about - _OF_ALL) & _traced(function, call))
        ):
            continue
        deleted_again = any(position(other.call) > position(call) for other in found)
        if not deleted_again and _follows(module, call, one.call, tried=True):
            return f"before {_said(call)}()"
    return ""


def _makes_or_ends(call: ast.Call) -> bool:
    """`Like.objects.create(status=status)`, `like.delete()`: what it is about may be said by the names it came from."""
    if not isinstance(call.func, ast.Attribute) or "cache" in path(call.func).lower():
        return False
    made = call.func.attr in _MAKES and ".objects" in path(call.func.value)
    return made or (call.func.attr in ("delete", "adelete") and _writes(call))


def _traced(function: Function, call: ast.Call) -> set[str]:
    """The names of a call, and those that their values came from."""
    found = _roots(call)
    for _hop in range(_HOPS):
        found |= {
            root
            for node, names, value in function.bindings
            if found & {*names} and position(node) < position(call)
            for root in _roots(value)
        }
    return found


def _writes(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    name, owner = call.func.attr, path(call.func.value)
    if "cache" in owner.lower():
        return False
    if name in ("save", "asave"):
        return owner != "" and not owner.startswith("super()")
    if name in ("delete", "adelete"):
        return owner != "" and not call.args and not call.keywords
    return (
        (name in ("update", "aupdate") and ".objects" in owner)
        or name.startswith("upload")
        or name == "put_object"
    )


def _roots(node: ast.AST | None) -> set[str]:
    """The names that an expression begins with: `page` of `page.id`."""
    if node is None:
        return set()
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)} - _COMMON


def _at_once(module: Module, function: Function) -> list[Deletion]:
    return [one for one in deletions(module, function) if not waits(module, one.call, function)]


def _runs_before_saving(module: Module, function: Function) -> bool:
    """A receiver of `pre_save` or `pre_delete`, or a method that `save()` calls before it saves."""
    if _has_early(_signals(module, function)):
        return True
    if function.cls is None or function.name == "save":
        return False
    for saving in module.functions_named("save"):
        end = _last_commit(module, saving) if saving.cls is function.cls else None
        before = [
            call
            for call in (saving.calls if end is not None else ())
            if end is not None and position(call) < position(end) and module.callee(call, saving) is function
        ]
        if before and not any(position(one.call) > position(end) for one in _at_once(module, saving) if end):
            return True
    return False


def _has_early(signals: set[str]) -> bool:
    """Whether one of them comes before the change, without the one that comes after it."""
    return any(
        before + what in signals and after + what not in signals
        for before, after in (("pre_", "post_"), ("BEFORE_", "AFTER_"))
        for what in _CHANGES
    )


def _signals(module: Module, function: Function) -> set[str]:
    """`@receiver(pre_save, sender=Page)`, `@hook(BEFORE_DELETE)`, `pre_delete.connect(changed, sender=Page)`, and the
    actions of `m2m_changed` that the receiver tests.
    """
    found: set[str] = set()
    for node in function.node.decorator_list:
        if isinstance(node, ast.Call) and last(path(node.func)) in ("receiver", "hook") and node.args:
            first = node.args[0]
            told = first.elts if isinstance(first, ast.List | ast.Tuple) else [first]
            found |= {last(path(signal)) for signal in told}
    if function.cls is None and function.outer is None and ".connect(" in module.source:
        found |= {
            last(path(call.func.value))
            for call in module.calls_of("connect")
            if isinstance(call.func, ast.Attribute) and call.args and path(call.args[0]) == function.name
        }
    if "m2m_changed" in found:
        found |= {
            str(node.value)
            for compare in function.compares
            if path(compare.left) == "action"
            for node in ast.walk(compare.comparators[0])
            if isinstance(node, ast.Constant)
        }
    return found


def _last_commit(module: Module, function: Function) -> ast.Call | None:
    """`super().save()` of a model, or the last commit of a session."""
    ends = [
        call
        for call in function.calls
        if isinstance(call.func, ast.Attribute)
        and (
            (call.func.attr in _COMMITS and path(call.func.value) != "")
            or (
                call.func.attr == function.name
                and call.func.attr in ("save", "delete")
                and path(call.func.value).startswith("super()")
            )
        )
    ]
    return max(ends, key=position, default=None)


def _follows(module: Module, end: ast.AST, call: ast.AST, *, tried: bool = False) -> bool:
    """Whether the end always comes after the deletion: it is in a block around it, and no return is between. It may be
    `tried`, in a `try:` of its own.
    """
    statement = module.statement(end)
    block = module.parents.get(statement)
    while block is not None and not inside(call, block):
        if not isinstance(block, ast.With | ast.AsyncWith) and not (
            tried and isinstance(block, ast.Try) and statement in block.body
        ):
            break
        statement, block = block, module.parents.get(block)
    around = [call, *module.up(call)]
    if block not in around:
        return False
    between = around[: around.index(block)]
    for node in between:
        if isinstance(node, ast.If | ast.Try | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith):
            body = getattr(node, "body", [])
            last_one = body[-1] if body else None
            if isinstance(last_one, ast.Return | ast.Raise | ast.Continue):
                return False
            if isinstance(node, ast.Try) and any(inside(call, handler) for handler in node.handlers):
                return False
    return not isinstance(block, ast.Try) or not any(inside(call, handler) for handler in block.handlers)


def _is_after(
    module: Module, function: Function, other: Deletion, one: Deletion, end: ast.Call | None
) -> bool:
    """A second deletion, after the commit."""
    if other is one or position(other.call) <= position(one.call):
        return False
    if end is not None and position(other.call) > position(end):
        return True
    block = _block(module, function, one.call)
    return block is not None and not inside(other.call, block)


def _in_a_transaction(module: Module, function: Function, call: ast.Call) -> str:
    block = _block(module, function, call)
    if block is None:
        return ""
    wrote = any(
        isinstance(made.func, ast.Attribute)
        and (made.func.attr in _WRITES or _is_a_command(module, made))
        and inside(made, block)
        and made is not call
        and "cache" not in path(made.func).lower()
        for made in function.calls
    )
    return "inside the transaction" if wrote else ""


def _is_a_command(module: Module, call: ast.Call) -> bool:
    """`listing.reject(reason)`, whose answer nobody reads: it changes something."""
    around = module.parents.get(call)
    if isinstance(around, ast.Await):
        around = module.parents.get(around)
    said = path(call.func)
    return (
        isinstance(around, ast.Expr)
        and not _SAYS.match(said)
        and not {"ensure", "check", "validate", "assert", "require"} & {*words(last(said))[:1]}
    )


def _block(module: Module, function: Function, call: ast.AST) -> ast.AST | None:
    """The outermost `with transaction.atomic():` around a call, or the function that it decorates."""
    found: ast.AST | None = None
    for node in module.up(call):
        if isinstance(node, ast.With | ast.AsyncWith):
            if any(_begins(module, function, item.context_expr) for item in node.items):
                found = node
        if node is function.node:
            break
    decorated = any(
        _is_atomic(path(decorator).removesuffix("()")) for decorator in function.node.decorator_list
    )
    return function.node if decorated else found


def _begins(module: Module, function: Function, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    said = path(node.func)
    if _is_atomic(said):
        return True
    owner = last(said.rpartition(".")[0])
    if last(said) in _BLOCKS and any(word in owner for word in _BLOCKS_OF):
        return True
    callee = module.callee(node, function)  # a context manager of this file
    return callee is not None and any(
        _is_atomic(path(item.context_expr).removesuffix("()"))
        for block in callee.withs
        for item in block.items
    )


def _is_atomic(said: str) -> bool:
    return said in ("atomic", "transaction.atomic") or said.endswith(".transaction.atomic")


def _said(call: ast.Call) -> str:
    return path(call.func)
