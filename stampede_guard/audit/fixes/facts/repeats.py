"""What may run twice on a miss, or not at all on a hit: code that only makes a value of what it has.

A lock repeats the look, and a decorator leaves out on a hit what stood before its test. Neither may touch a check of
permissions, a quota or a counter. So a call is taken for harmless by its name only if the name is on a list here.
"""

from __future__ import annotations

import ast

from stampede_guard.audit.caching.fills import Fill
from stampede_guard.audit.source.handed import handed
from stampede_guard.audit.source.model import inside
from stampede_guard.audit.source.words import is_cachy, last, names_in, path, words

# Calls that give the same answer twice and change nothing.
_PURE = frozenset(
    "loads dumps json packb unpackb model_dump model_dump_json model_validate_json model_validate parse_raw parse_obj "
    "validate_python validate_json decode encode format lower upper strip hexdigest digest md5 sha1 sha256 sha512 "
    "blake2b from_dict b64decode utcnow now today date isoformat strftime timestamp time dict sorted".split()
)
# Methods with these names may do anything: `flags.set(day)`, `jobs.list()`.
_BUILTINS = frozenset(
    "int float str bool list tuple set len isinstance hasattr getattr type repr hash round min max any all".split()
)
_OF_LISTS = frozenset("lrange smembers zrange zrevrange rpush lpush sadd zadd".split())
_WITHOUT_ARGUMENTS = frozenset("items keys values copy".split())
# `jwt.decode(token)` and `signer.loads(text)` refuse some callers.
_PROVES = frozenset(
    "jwt jws jwe jose token tokens sign signed signer signing serializer fernet auth cookie cookies".split()
)
_READS_PROOFS = frozenset("loads decode model_validate model_validate_json".split())
_KEY_WORDS = frozenset("key keys hash digest".split())
_MAKES_KEYS = frozenset("make build get cache cached to key format compute calculate hash digest".split())
_DOES_MORE = frozenset(
    "consume rotate check verify create use validate take next new pop claim acquire reserve spend charge count incr "
    "increment require ensure authorize authenticate allow assert delete remove revoke refresh renew set save store "
    "put add register issue test try update insert is has compare lock unlock audit log record track or".split()
)
_LOGS = frozenset("debug info set_attribute".split())
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_DEPTH = 3


def may_repeat(fill: Fill, statement: ast.stmt) -> bool:
    """Whether a statement may run twice, or be left out on a hit."""
    match statement:
        case ast.Assign(targets=[ast.Name()], value=value) | ast.AnnAssign(target=ast.Name(), value=value):
            return value is None or is_pure(fill, value)
        case ast.Pass():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=attr, value=owner), args=args)):
            said = last(path(owner)).lower().strip("_")
            is_log = said in ("logger", "log", "logging", "span") or said.endswith("logger")
            return attr in _LOGS and is_log and all(is_pure(fill, argument) for argument in args)
        case ast.If(test=test, body=body, orelse=orelse):
            return is_pure(fill, test) and all(
                _runs_once(branch, fill) or all(may_repeat(fill, s) for s in branch)
                for branch in (body, orelse)
            )
        case ast.Try(body=body, handlers=handlers, orelse=[], finalbody=[]):
            return all(may_repeat(fill, s) for s in body) and all(
                all(may_repeat(fill, s) for s in handler.body) for handler in handlers
            )
        case _:
            return False


def is_pure(fill: Fill, value: ast.expr) -> bool:
    for node in ast.walk(value):
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.Lambda):
            return False
        if isinstance(node, ast.Call) and node is not fill.read.call and not is_harmless(fill, node):
            return False
        if isinstance(node, ast.NamedExpr) and not inside(fill.read.call, node):
            return False
        if isinstance(node, ast.Await) and node.value is not fill.read.call:
            return False
    return True


def is_harmless(fill: Fill, call: ast.Call) -> bool:
    name = last(path(call.func))
    if name in _READS_PROOFS and _PROVES & set(words(path(call.func))):
        return False
    if name == "join":  # of texts, not of a thread
        return len(call.args) == 1 and not isinstance(call.args[0], ast.Constant)
    if name in _WITHOUT_ARGUMENTS and not call.args and not call.keywords:
        return True
    if name in _BUILTINS:
        return isinstance(call.func, ast.Name)
    return name in _PURE or _is_client(fill, call, name) or _makes_the_key(fill, call, name)


def _runs_once(branch: list[ast.stmt], fill: Fill) -> bool:
    """It leaves, or it is the computation. Then it does not run again."""
    return bool(branch) and (
        isinstance(branch[-1], _EXITS) or any(inside(fill.write.call, s) for s in branch)
    )


def _is_client(fill: Fill, call: ast.Call, name: str) -> bool:
    """`get_redis()` in `get_redis().get(key)`."""
    read = fill.read.call
    return (
        isinstance(read, ast.Call)
        and inside(call, read.func)
        and (is_cachy(path(call.func)) or bool({"client", "connection"} & set(words(name))))
    )


def _makes_the_key(fill: Fill, call: ast.Call, name: str) -> bool:
    """`make_key(day)` for the get's key. Another call of that name may do anything: `consume_key(user)`."""
    said = words(name)
    if not _KEY_WORDS & set(said) or _DOES_MORE & set(said) or not _is_in_the_key(fill, call):
        return False
    if said[-1] in _KEY_WORDS and (said[0] in _MAKES_KEYS or is_cachy("_".join(said[-2:]))):
        return True
    # `day_key(day)`, if the set calls it again: then it gives the same answer twice.
    text = ast.dump(call)
    return any(ast.dump(node) == text for part in fill.write.key for node in ast.walk(part))


def _is_in_the_key(fill: Fill, call: ast.Call) -> bool:
    names = {name for part in fill.read.key for name in names_in(part)}
    for _ in range(_DEPTH):
        for _node, bound, value in fill.function.bindings:
            if names & set(bound):
                names |= names_in(value)
    return any(inside(call, part) for part in fill.read.key) or any(
        names & set(bound) and inside(call, value) for _node, bound, value in fill.function.bindings
    )


def is_plain(fill: Fill) -> bool:
    """One value is read and stored at once: no list of the store, nothing that another thread does."""
    calls = [call for call in (fill.read.call, fill.write.call) if isinstance(call, ast.Call)]
    if any(handed(call) is not None or last(path(call.func)) in _OF_LISTS for call in calls):
        return False
    return fill.read.what == "read"
