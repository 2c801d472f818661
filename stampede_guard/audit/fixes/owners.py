"""SG302: the lock's value becomes a token, and the code that deletes the lock compares it."""

from __future__ import annotations

import ast

from stampede_guard.audit.caching import lockuse
from stampede_guard.audit.caching.locks import is_nx
from stampede_guard.audit.fixes.facts.texts import source
from stampede_guard.audit.fixes.naming import means_module
from stampede_guard.audit.plan import FixPlan, Import, Replace, Span
from stampede_guard.audit.rule import Violation
from stampede_guard.audit.source.model import Function, Module, inside
from stampede_guard.audit.source.origins import origin

_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
_WHY = "check that no other code reads the lock's value, and that the client may run scripts (EVAL)"


def by_its_owner(module: Module, hit: Violation) -> FixPlan | None:
    """`redis.set(lock, 1, nx=True, ex=30)` stores a token. A script that compares the token replaces `delete`."""
    freed = hit.node
    function = module.owners.get(freed)
    if not isinstance(freed, ast.Call) or not isinstance(freed.func, ast.Attribute) or function is None:
        return None
    made = origin(module, freed.func.value, function).lower()
    token = next((name for name in ("token", "lock_token") if _is_free(module, function, name)), None)
    taken = _taken(module, function, freed)
    if taken is None or token is None or not means_module(module, "secrets"):
        return None
    if not ("redis" in made or "valkey" in made) or "pipeline" in made:
        return None
    if _looked_at(module, function, freed.args[0], (taken, freed)):
        return None
    client, key = source(module, freed.func.value), source(module, freed.args[0])
    script = f'{client}.eval(\n    "{_RELEASE}",\n    1,\n    {key},\n    {token},\n)'
    value = f"({token} := secrets.token_hex(16))"
    return FixPlan(
        edits=(
            Replace(Span.of(taken.args[1]), value),
            Replace(Span.of(freed), script),
            Import("secrets", ""),
        ),
        reasons=(_WHY,),
    )


def _taken(module: Module, function: Function, freed: ast.Call) -> ast.Call | None:
    """The one SET NX of this function that always runs before the lock is freed."""
    assert isinstance(freed.func, ast.Attribute)
    client = ast.dump(freed.func.value)
    found = [
        call
        for call in function.calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "set"
        and is_nx(call)
        and ast.dump(call.func.value) == client
        and len(call.args) >= 2
        and lockuse.same_spelling(function, call.args[0], function, freed.args[0])
    ]
    if len(found) != 1 or not isinstance(found[0].args[1], ast.Constant):
        return None
    taken = found[0]
    asked = module.statement(taken)
    around = module.parents.get(asked)
    # Statements after it in the same block, or under them, run only after it. Statements of a sibling branch may
    # run without it.
    blocks = [getattr(around, name, None) for name in ("body", "orelse", "finalbody")]
    block = next((block for block in blocks if isinstance(block, list) and asked in block), [])
    after = block[block.index(asked) :] if block else []
    if isinstance(asked, ast.While):
        return None
    return (
        taken
        if any(inside(freed, statement) for statement in after) and _is_asked_at_once(module, taken)
        else None
    )


def _is_asked_at_once(module: Module, taken: ast.Call) -> bool:
    """Whether the call always runs: not behind an `and`, in a lambda or in a branch of an expression."""
    for around in module.up(taken):
        if isinstance(around, ast.stmt):
            return True
        if not isinstance(around, ast.Await | ast.UnaryOp | ast.NamedExpr | ast.Compare):
            return False
    return False


def _is_free(module: Module, function: Function, name: str) -> bool:
    names = {node.id for node in ast.walk(module.tree) if isinstance(node, ast.Name)}
    return name not in names | function.parameters | set(module.imports)


def _looked_at(module: Module, function: Function, key: ast.expr, known: tuple[ast.Call, ...]) -> bool:
    """Whether another statement of this function renews, reads or deletes the lock."""
    text = ast.dump(key)
    return any(
        call not in known and any(ast.dump(argument) == text for argument in call.args)
        for call in function.calls
    )
