"""SG301: a lock in the store that never expires."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stampede_guard.audit.caching import lockuse
from stampede_guard.audit.caching.holding.objects import StoreLock, store_locks
from stampede_guard.audit.caching.locks import is_nx
from stampede_guard.audit.caching.receivers import kind
from stampede_guard.audit.fixes.expressions import expiring_lock
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Function, Module, argument, keyword_names
from stampede_guard.audit.source.words import last, path, words

_TTL = frozenset("ex px exat pxat ttl expire expiry timeout time keepttl expiration lease".split())
# How the libraries call the lifetime of a lock.
_LIFETIMES = ("timeout", "expire")
_MEMCACHE = frozenset("memcache memcached mc".split())


def check(module: Module) -> Iterator[Violation]:
    for call in module.calls_of("set", "setnx", "add", "aadd"):
        if not isinstance(call.func, ast.Attribute):
            continue
        function = module.owners.get(call)
        if not _never_expires(module, call, call.func, function) or not _is_lock(module, call, function):
            continue
        if call.func.attr == "setnx" and _expires_later(call, function):
            if not _is_repaired(function):
                yield Violation(
                    node=call,
                    message="a holder that dies between SETNX and EXPIRE keeps this lock for ever: "
                    "SET NX EX does both at once",
                    confidence="medium",
                    function=function.name if function else "",
                )
            continue
        yield Violation(
            node=call,
            message="this lock has no TTL: if its holder dies, the lock is never free again",
            function=function.name if function else "",
        )
    for made in store_locks(module):
        fault = _of_a_library(made)
        if fault:
            yield Violation(
                node=made.call,
                message=fault,
                confidence="high" if made.sure and len(made.call.args) < 2 else "medium",
                function=made.function.name if made.function else "",
            )


def _of_a_library(made: StoreLock) -> str:
    """What is wrong with a lock that a library makes. None of them expires by default."""
    call = made.call
    told = {keyword.arg for keyword in call.keywords}
    if None in told or any(isinstance(argument, ast.Starred) for argument in call.args):
        return ""
    if made.of == "django" and len(call.args) > 1 and not told & set(_LIFETIMES):
        return (
            "the second argument of django-redis' lock() is a version, not a time: this lock never expires, so a "
            "holder that dies keeps it; write timeout="
        )
    lifetime = argument(call, 2 if made.of == "class" else 1, *_LIFETIMES)
    if lifetime is None or (isinstance(lifetime, ast.Constant) and lifetime.value is None):
        return "this lock has no timeout: if its holder dies, the lock is never free again"
    return ""


def _never_expires(module: Module, call: ast.Call, func: ast.Attribute, function: Function | None) -> bool:
    if any(keyword.arg is None for keyword in call.keywords):
        return False
    if func.attr == "set":
        return is_nx(call) and len(call.args) <= 2 and not keyword_names(call) & _TTL
    if func.attr == "setnx":
        return len(call.args) <= 2 and not keyword_names(call) & _TTL
    if func.attr in ("add", "aadd"):
        return _added_for_ever(call, func)
    return False


def _added_for_ever(call: ast.Call, func: ast.Attribute) -> bool:
    """memcached's `add` never expires by default. Django's `add` does, unless its timeout is None."""
    receiver = last(path(func.value))
    timeout = argument(call, 2, "timeout", "time", "expire", "exptime")
    if len(call.args) + len(call.keywords) < 2:
        return False
    if set(words(receiver)) & _MEMCACHE:
        return timeout is None or (isinstance(timeout, ast.Constant) and timeout.value == 0)
    return receiver.endswith("cache") and isinstance(timeout, ast.Constant) and timeout.value is None


def _expires_later(call: ast.Call, function: Function | None) -> bool:
    if function is None:
        return False
    key = argument(call, 0, "name", "key")
    return any(
        other.func.attr in ("expire", "pexpire", "expireat", "pexpireat")
        for other in function.calls
        if isinstance(other.func, ast.Attribute)
        and lockuse.same_spelling(function, key, function, argument(other, 0, "name", "key"))
    )


def _is_repaired(function: Function | None) -> bool:
    """Another caller gives a lock without a TTL one, or both commands are one transaction."""
    return function is not None and any(
        isinstance(call.func, ast.Attribute) and call.func.attr in ("ttl", "pttl", "pipeline", "multi")
        for call in function.calls
    )


def _is_lock(module: Module, call: ast.Call, function: Function | None) -> bool:
    assert isinstance(call.func, ast.Attribute)
    if kind(module, call.func.value, function) == "no":
        return False
    key = argument(call, 0, "name", "key")
    text = f"{lockuse.key_text(function, key)} {lockuse.around(function)}"
    if lockuse.is_other(text):
        return False
    if lockuse.is_lock_key(function, key):
        return True
    if function is None or key is None:
        return False
    # Taken and released in one function: a lock, whatever its name.
    return any(
        lockuse.same_spelling(function, key, function, argument(other, 0, "name", "key"))
        for other in lockuse.deletes(function)
        if isinstance(other.func, ast.Attribute) and other.func.attr in ("delete", "unlink", "adelete")
    )


RULE = Rule(
    code="SG301",
    name="lock-without-ttl",
    summary="`SET NX` used as a lock, or `redis.lock()`, without an expiry (positional TTLs count; secrets and markers "
    "are not locks)",
    confidence="high",
    scope="fleet",
    hints=(
        (
            *(b"nx=", b"nx =", b"setnx", b'"NX"', b"'NX'"),
            *(b"cache.add(", b"cached.add(", b"mc.add(", b"cache.aadd(", b"cached.aadd(", b"mc.aadd("),
            *(b".lock(", b"Lock("),
        ),
        (b"lock", b"Lock", b"LOCK", b"delete", b"running", b"mutex", b"leader"),
        (b"setnx", b".set(", b".add(", b".aadd(", b".lock(", b"redis"),
    ),
    check=check,
    fix=expiring_lock,
    fixes=("unsafe",),
    documentation=Documentation(
        what="A key set with NX (or memcached's `add`) serves as a lock and has no expiry. Or `lock()` of redis or "
        "django-redis, or `redis_lock.Lock`, gets no `timeout=` (`expire=`). With django-redis, the second argument "
        "by position is a version.",
        why="If the process that holds it is killed, replaced by a deploy or out of memory, the key "
        "stays. Then the work is never done.",
        example='if await redis.set("lock:report", 1, nx=True): ...',
        instead='if await redis.set("lock:report", token, nx=True, px=5000): ...   # renew it; or guard.single()',
        unless="The key is a marker that must stay for ever (a secret, a once-only flag). Keys whose name "
        "shows this are not reported. With the backend `redis_lock.django_cache`, the second argument of "
        "`cache.lock()` is the expiry. SETNX followed by EXPIRE is reported at medium, because the "
        "process may crash between them. It is not reported if TTL is checked again or both are one "
        "transaction.",
        sure="High if the key or the function is called a lock, or if the library of a lock object is seen.",
        fix="Unsafe: `set(..., nx=True)` gets `ex=60`, and `setnx` becomes such a `set`, in `bool(...)` "
        "unless it is only tested. The 60 seconds "
        "are a guess.",
    ),
)
