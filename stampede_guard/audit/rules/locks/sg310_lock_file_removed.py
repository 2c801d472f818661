"""SG310: the file of a lock is removed while others wait for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.fills import owned_name
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Function, Module, owner_class
from stampede_guard.audit.source.words import last, path

# Their lock belongs to the file, not to its name.
_LOCKS = re.compile(r"^(?:fasteners|portalocker|filelock|oslo_concurrency)\b.*\.\w*Lock$")
_REMOVES = re.compile(r"\b(?:remove|unlink)\s*\(")
_FLOCKS = frozenset(("flock", "lockf"))
# The holder looks whether its file still has the name.
_CHECKED = re.compile(r"st_ino|samestat|sameopenfile|O_EXCL")


def check(module: Module) -> Iterator[Violation]:
    if _CHECKED.search(module.source):
        return
    for function in module.functions_with(_REMOVES):
        for call in function.calls:
            removed = _removed(module, call)
            if removed is None:
                continue
            if any(ast.dump(removed) == ast.dump(locked) for locked in _locked(module, function)):
                yield Violation(
                    node=call,
                    message=f"a waiter locks the removed file {ast.unparse(removed)}, and the next caller a new one of "
                    "that name: two hold the lock at once",
                    function=owned_name(function),
                )


def _removed(module: Module, call: ast.Call) -> ast.expr | None:
    """The path that `os.remove(path)` or `path.unlink()` removes."""
    if module.resolve(call.func) in ("os.remove", "os.unlink") and call.args:
        return call.args[0]
    if isinstance(call.func, ast.Attribute) and call.func.attr == "unlink":
        return call.func.value
    return None


def _locked(module: Module, function: Function) -> Iterator[ast.expr]:
    """The paths of the files that the function, those around it, or its class lock."""
    cls = owner_class(function)
    scopes = list(function.chain())
    if cls is not None:
        scopes += [one for one in module.functions if owner_class(one) is cls and one not in scopes]
    calls = [(scope, call) for scope in scopes for call in scope.calls if call.args]
    flocked = [path(call.args[0]) for _scope, call in calls if last(path(call.func)) in _FLOCKS]
    for scope, call in calls:
        made = module.resolve(call.func)
        if _LOCKS.match(made):
            yield call.args[0]
        elif made in ("open", "os.open", "io.open"):
            held = _held(module, scope, call)
            if held and any(one == held or one.startswith(f"{held}.") for one in flocked):
                yield call.args[0]


def _held(module: Module, scope: Function, call: ast.Call) -> str:
    """What the opened file is called: `file`, `self.file`."""
    around = module.parents.get(call)
    if isinstance(around, ast.Assign) and len(around.targets) == 1:
        return path(around.targets[0])
    return next((names[0] for _node, names, value in scope.bindings if value is call and names), "")


RULE = Rule(
    code="SG310",
    name="lock-file-removed",
    summary="the file of a `flock` or an `InterProcessLock` is removed: two processes then hold the lock at once",
    confidence="high",
    scope="fleet",
    hints=((b"flock", b"lockf", b"asteners", b"ortalocker", b"ilelock"), (b"remove(", b"unlink(")),
    check=check,
    documentation=Documentation(
        what="A program locks a file with `fcntl.flock`, fasteners, portalocker or filelock, and removes the file.",
        why=(
            "The lock belongs to the file, not to its name. A process that waits for it gets the removed file. The "
            "next one finds no file of that name, creates another one and locks it. Both work at once."
        ),
        example="with InterProcessLock(name):\n    rebuild()\nos.remove(name)",
        instead="with InterProcessLock(name):   # an empty file costs nothing: leave it there\n    rebuild()",
        unless="Each holder compares the file with its name after it has the lock. Files of `O_EXCL` are not reported.",
        sure="High: the path is written in the same way, and the locked file is the one that was opened there.",
        fix="No automatic fix: the removal may be part of a clean-up that needs other changes.",
    ),
)
