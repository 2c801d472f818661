"""SG405: a side effect that one worker should have, in every worker."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.imported import followed_function
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module
from stampede_guard.audit.source.programs import runs_alone
from stampede_guard.audit.source.startup import is_elected, is_single_program, is_web, started
from stampede_guard.audit.source.words import is_locky, last, path

_NAMES = (
    r"(?:send_(?:\w+_)?(?:message|mail|email|notification|alert|sms)|notify_\w+|set_webhook|"
    r"(?:pre)?warm_?(?:up)?_?(?:\w*_)?caches?|cache_warm\w*|populate_caches?|preload_caches?|"
    r"run_(?:\w+_)?migrations?|migrate\w*|apply_migrations|upgrade_db|create_all|seed_\w+|create_(?:first|default|initial)_\w+|"
    r"init_db|create_db_and_tables|bootstrap_data|import_\w+_data|sync_\w+_to_\w+)"
)
# Parts of these names, which are fast to search for.
_PARTS = (
    *(
        b"send_",
        b"notify_",
        b"set_webhook",
        b"warm",
        b"populate_cache",
        b"preload_cache",
        b"migrat",
        b"upgrade",
    ),
    *(
        b"create_all",
        b"seed_",
        b"create_first_",
        b"create_default_",
        b"create_initial_",
        b"init_db",
        b"_data",
        b"sync_",
    ),
    b"create_db_and_tables",
)
_BEGINS = re.compile(rb"def (?:setup|init|prepare|bootstrap|start)\w{0,80}\(")
_TAKEN = (
    *(b"delete from", b"DELETE FROM", b"truncate", b"TRUNCATE", b"reset_all"),
    re.compile(rb"_locks?\("),
    re.compile(rb"delete from|truncate", re.IGNORECASE),
)
_EFFECTS = re.compile(f"^{_NAMES}$")


# Functions that a start-up hook of another file calls, by their names.
_PREPARES = re.compile(
    r"^(?:setup|init|initiali[sz]e|prepare|bootstrap|startup|start)(?:_(?:db|database|databases|app|cache|storage|redis|all))?$"
)
_WIPES = re.compile(r"^\s*(?:delete\s+from\s+[\w.\"`]+\s*(?:;\s*)?$|truncate\b)", re.IGNORECASE)
_FREES = re.compile(r"^(?:reset|clear|release|delete|remove|drop|free)_(?:all_)?(?:stale_)?locks?$")


def check(module: Module) -> Iterator[Violation]:
    if is_single_program(module):
        return
    yield from _wiped(module)
    for function in started(module):
        if is_elected(module, function):
            continue
        for call in function.calls:
            name = last(path(call.func))
            if _EFFECTS.match(name) or module.resolve(call.func) == "alembic.command.upgrade":
                if _elects(module, call):
                    continue
                yield Violation(
                    node=call,
                    message=f"every worker does {name}() when it starts, at the same time as the others",
                    function=function.name,
                )


def _wiped(module: Module) -> Iterator[Violation]:
    """What a worker that starts takes from those that run: rows, and locks."""
    begins = [
        one
        for one in module.functions
        if _PREPARES.match(one.name)
        and (one.name == "init_app" or (one.cls is None and ("_" in one.name or is_web(module))))
    ]
    for function in dict.fromkeys((*started(module), *begins)):
        if _FREES.match(function.name) or is_elected(module, function) or runs_alone(module, function):
            continue
        for call in function.calls:
            what = _takes(module, call)
            if what and not _under_a_lock(module, call):
                yield Violation(
                    node=call,
                    message=f"each worker that starts {what}, also those of the workers that run",
                    function=function.name,
                )
                break


def _takes(module: Module, call: ast.Call) -> str:
    name = last(path(call.func))
    if _FREES.match(name) or module.resolve(call.func) == "redis_lock.reset_all":
        return "frees all locks"
    stated = call.args[0] if call.args and name in ("execute", "exec_driver_sql") else None
    if isinstance(stated, ast.Call) and stated.args:  # `text("DELETE ...")`
        stated = stated.args[0]
    if isinstance(stated, ast.Constant) and isinstance(stated.value, str) and _WIPES.match(stated.value):
        return "deletes all rows of the table"
    return ""


def _under_a_lock(module: Module, call: ast.Call) -> bool:
    return any(
        isinstance(around, ast.With | ast.AsyncWith)
        and any(is_locky(last(path(item.context_expr))) for item in around.items)
        for around in module.up(call)
    )


def _elects(module: Module, call: ast.Call) -> bool:
    """Whether the called function elects one worker itself, in this file or in the one it is imported from."""
    if not isinstance(call.func, ast.Name):
        return False
    own = module.functions_named(call.func.id)
    if own:
        return len(own) == 1 and is_elected(module, own[0])
    found = followed_function(module, call.func.id)
    return found is not None and is_elected(*found)


RULE = Rule(
    code="SG405",
    name="effect-per-worker",
    summary="a side effect that one worker should do (message sent, cache warmed, migration run) in a "
    "lifespan or start-up hook",
    confidence="medium",
    scope="fleet",
    hints=(
        (b"lifespan", b"startup", b"AppConfig", b"create_app", b"server_start", _BEGINS),
        (*_PARTS, *_TAKEN),
        (re.compile(rf"\b{_NAMES}\s*\(".encode()), b"upgrade", *_TAKEN),
    ),
    check=check,
    documentation=Documentation(
        what="A lifespan or start-up hook sends a message, warms a cache, or migrates a database. Or it empties a "
        "table, or frees all locks.",
        why="A deploy starts all workers at once. The message goes out N times, the warm-up is a herd of "
        "its own, and two migrations run at the same time. A worker that restarts takes rows and locks from the "
        "others.",
        example="@asynccontextmanager\nasync def lifespan(app):\n    await warm_cache()\n    yield",
        instead='@leases.run_exclusive("warm-up", at_least_for=60)   # one worker; the others skip it\n'
        "async def warm_cache(): ...\n\n"
        "# or do it in a step of the deploy",
        unless="The effect is idempotent and cheap.",
        sure="Medium: the names of the calls decide.",
        fix="No automatic fix: the effect may belong under a lease or in a step of the deploy.",
    ),
)
