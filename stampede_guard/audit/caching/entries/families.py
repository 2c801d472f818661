"""Deletions of keys that nothing stores, beside a key that they seem to mean."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.entries.deletions import LATER, deletions
from stampede_guard.audit.caching.entries.templates import HOLE, fits, is_telling, templates
from stampede_guard.audit.caching.fills import accesses_of
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.words import is_cachy, names_in, text_of

_DELETES = re.compile(r"\b(?:delete|delete_many|adelete|unlink|invalidate)[\s\\]*\(")


def missed(module: Module) -> Iterator[tuple[Function, ast.Call, str, str]]:
    """Each deletion that deletes nothing, with its key, and the key that it seems to mean."""
    deleting = [
        (function, found.call, part)
        for function in module.functions_with(_DELETES)
        for found in deletions(module, function)
        if found.key is not None
        for part in _each(found.call)
    ]
    if not deleting:
        return
    used = _used(module)
    stored = {key for key, wrote in used.items() if wrote and is_telling(key)}
    seen = set[ast.Call]()
    for function, call, part in deleting:
        keys = templates(module, function, part)
        if call in seen or not keys or not all(map(is_telling, keys)):
            continue
        if any(fits(key, other) for key in keys for other in used):
            continue
        meant = next(
            (other for key in sorted(keys) for other in sorted(stored) if _is_near(key, other)), None
        )
        if meant is not None:
            seen.add(call)
            yield function, call, _shown(min(keys)), _shown(meant)


def _each(call: ast.Call) -> list[ast.expr]:
    parts: list[ast.expr] = []
    for given in call.args:
        parts += given.elts if isinstance(given, ast.List | ast.Tuple | ast.Set) else [given]
    return parts


def _used(module: Module) -> dict[str, bool]:
    """The keys of the file's reads and writes, and whether they are written."""
    found: dict[str, bool] = {}
    for function in module.functions:
        for access in accesses_of(module, function):
            if access.key and not access.helper:
                for key in templates(module, function, access.key[0]):
                    found[key] = found.get(key, False) or access.what == "write"
    return found


def _is_near(key: str, other: str) -> bool:
    """`profile_*` and `user_profile_*`, `user:*` and `user:*:*`, `user-*` and `user:*`."""
    if key.count(HOLE) == other.count(HOLE) and _letters(key) == _letters(other):
        return True
    head, other_head = key.split(HOLE, maxsplit=1)[0], other.split(HOLE, maxsplit=1)[0]
    if (
        key.count(HOLE) == other.count(HOLE)
        and len(head) >= 6
        and key[len(head) :] == other[len(other_head) :]
    ):
        longer, shorter = (other_head, head) if len(other_head) > len(head) else (head, other_head)
        return len(shorter) >= 6 and longer.endswith(shorter) and not longer[-len(shorter) - 1].isalnum()
    return (
        HOLE in key
        and key.endswith(HOLE)
        and other.startswith(key)
        and other[len(key) :].strip(HOLE)[:1] in (":", "_", "-", "|")
    )


def _letters(key: str) -> str:
    return "".join(character.lower() for character in key if character.isalnum() or character == HOLE)


def _shown(key: str) -> str:
    return key.replace(HOLE, "*")


def bound_late(module: Module) -> Iterator[tuple[Function, ast.Call, str]]:
    """`for day in days: transaction.on_commit(lambda: cache.delete(day))`: each of them deletes the last day."""
    if "lambda" not in module.source:
        return
    for call in module.calls_of(*LATER):
        function = module.owners.get(call)
        given = next((node for node in call.args if isinstance(node, ast.Lambda)), None)
        if function is None or given is None or given.args.args or given.args.kwonlyargs:
            continue
        said = text_of(given.body)
        if not any(is_cachy(part) for part in re.findall(r"\w+", said)) and "invalidate" not in said:
            continue
        for loop in module.up(call):
            if loop is function.node:
                break
            if isinstance(loop, ast.For | ast.AsyncFor):
                late = sorted(names_in(loop.target) & names_in(given.body))
                if late:
                    yield function, call, late[0]
                    break


__all__ = ["bound_late", "missed"]
