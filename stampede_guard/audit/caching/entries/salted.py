"""`hash()` in what leaves the process: Python salts the hashes of texts anew in each process."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from stampede_guard.audit.caching.accesses import access_of
from stampede_guard.audit.caching.entries.shared import is_shared, names_a_server
from stampede_guard.audit.caching.imported import followed_function
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.origins import annotated
from stampede_guard.audit.source.words import is_locky, last, names_in, path, text_of, words

HASHES = re.compile(r"(?<![\w.])hash\(")
ADVISORY = re.compile(r"advisory_(?:xact_)?lock", re.IGNORECASE)
_NUMBERS = frozenset("int float bool len round abs sum id time".split())
_NUMBERED = frozenset("id pk count number version index size port year day".split())
_OF_A_FLEET = frozenset("advisory distributed redis pg postgres cluster".split())
_DELETES = frozenset("delete delete_many adelete unlink touch expire ttl incr decr".split())


def salted(module: Module) -> Iterator[tuple[ast.Call, Function, str]]:
    """Each `hash()` that becomes part of a key or of a lock that several processes share, and which of both."""
    if "hash" in module.imports or "hash" in module.values or module.functions_named("hash"):
        return
    for function in module.functions_with(HASHES):
        for call in function.calls:
            if not _is_hash(module, call, function):
                continue
            what = _becomes(module, function, call) or _returned_into(module, function, call)
            if what:
                yield call, function, what


def _is_hash(module: Module, call: ast.Call, function: Function) -> bool:
    return (
        isinstance(call.func, ast.Name)
        and call.func.id == "hash"
        and len(call.args) == 1
        and "hash" not in function.parameters
        and not _is_a_number(module, call.args[0], function)
    )


def _is_a_number(module: Module, node: ast.expr, function: Function) -> bool:
    """The hash of a number is that number, in every process."""
    match node:
        case ast.Constant(value=value):
            return not isinstance(value, str | bytes)
        case ast.Tuple(elts=parts):
            return all(_is_a_number(module, part, function) for part in parts)
        case ast.Call(func=func):
            return last(path(func)) in _NUMBERS
        case ast.Attribute(attr=name):
            return words(name)[-1:] != () and words(name)[-1] in _NUMBERED
        case ast.Name(id=name):
            declared = next((one for one in function.arguments if one.arg == name), None)
            if declared is not None and declared.annotation is not None:
                return annotated(module, declared.annotation) in ("int", "float", "bool")
            return words(name)[-1:] != () and words(name)[-1] in _NUMBERED
        case _:
            return False


def _becomes(module: Module, function: Function, seed: ast.Call) -> str:
    """ "key" or "lock id" if an expression gets there in this function, by names in between; else ""."""
    held = _held(function, seed)

    def has(node: ast.AST | None) -> bool:
        return node is not None and (_contains(node, seed) or bool(names_in(node) & held))

    for call in function.calls:
        if call is seed:
            continue
        if not isinstance(call.func, ast.Attribute):
            if _locks_for_all(call) and any(has(node) for node in (*call.args, *call.keywords)):
                return "lock id"
            if _is_handed_to_a_store(module, function, call, has):
                return "key"
            continue
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if any(map(has, given)) and ADVISORY.search(_statement(module, function, given)):
            return "lock id"
        if not is_shared(module, call, function):
            continue
        if call.func.attr == "lock" and call.args and has(call.args[0]):
            return "lock id"
        access = access_of(module, function, call)
        key = access.key if access is not None else ()
        if call.func.attr in _DELETES or call.func.attr in ("get_or_set", "aget_or_set"):
            key = tuple(call.args[:1])
        if any(map(has, key)):
            return "key"
    return ""


def _locks_for_all(call: ast.Call) -> bool:
    """`try_advisory_lock(session, number)`: a function of the project, by its name."""
    name = last(path(call.func))
    return is_locky(name) and not _OF_A_FLEET.isdisjoint(words(name))


def _is_handed_to_a_store(
    module: Module, function: Function, call: ast.Call, has: Callable[[ast.AST | None], bool]
) -> bool:
    """`cached_result(compute, cache_key)`: a function of the project that uses the key. If its file is not there, its
    module's name and the key's name decide.
    """
    if not isinstance(call.func, ast.Name):
        return False
    own = module.callee(call, function)
    found = (module, own) if own is not None else followed_function(module, call.func.id)
    if found is None:
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        named = any(has(node) and "key" in words(last(path(node))) for node in given)
        return named and names_a_server(module.imports.get(call.func.id, "").rpartition(".")[0])
    other, helper = found
    spec = helper.node.args
    names = [one.arg for one in (*spec.posonlyargs, *spec.args)]
    given_names = {name for name, node in zip(names, call.args, strict=False) if has(node)}
    given_names |= {keyword.arg for keyword in call.keywords if keyword.arg and has(keyword.value)}
    return bool(given_names) and _is_a_key_in(other, helper, given_names)


def _is_a_key_in(module: Module, helper: Function, names: set[str]) -> bool:
    """Whether a function passes one of these names as a key to a store that processes share."""
    for _node, bound, value in helper.bindings:
        if names_in(value) & names and not any(isinstance(node, ast.Call) for node in ast.walk(value)):
            names = {*names, *bound}
    for call in helper.calls:
        access = access_of(module, helper, call) if is_shared(module, call, helper) else None
        if access is not None and any(names_in(node) & names for node in access.key):
            return True
    return False


def _returned_into(module: Module, function: Function, seed: ast.Call) -> str:
    """A function of this file that builds the key: its callers use what it returns."""
    held = _held(function, seed)
    ends = [
        node for node in ast.walk(function.node) if isinstance(node, ast.Return) and node.value is not None
    ]
    if not any(_contains(end, seed) or names_in(end) & held for end in ends):
        return ""
    for use in module.uses(function):
        caller = module.owners.get(use)
        if caller is not None and caller is not function and (what := _becomes(module, caller, use)):
            return what
    return ""


def _held(function: Function, seed: ast.AST) -> set[str]:
    """The names that hold what is made of an expression."""
    held: set[str] = set()
    for _node, names, value in function.bindings:
        if _contains(value, seed) or names_in(value) & held:
            held.update(names)
    return held


def _contains(node: ast.AST, seed: ast.AST) -> bool:
    return any(inner is seed for inner in ast.walk(node))


def _statement(module: Module, function: Function, given: list[ast.expr]) -> str:
    """The text of a statement of SQL, also from a name of the function or of the module."""
    parts = [text_of(node) for node in given]
    for name in {inner.id for node in given for inner in ast.walk(node) if isinstance(inner, ast.Name)}:
        parts += [text_of(value) for _node, names, value in function.bindings if name in names]
        parts.append(text_of(module.values.get(name)))
    return " ".join(parts)
