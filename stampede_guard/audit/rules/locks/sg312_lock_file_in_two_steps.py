"""SG312: a lock file is looked for, and then written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.fills import owned_name
from stampede_guard.audit.caching.locks import locks_of
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Function, Module, argument, inside, position
from stampede_guard.audit.source.words import is_locky, last, path, words

_LOOKS = re.compile(r"\b(?:exists|lexists|isfile|is_file)\s*\(")
# The same in bytes: a function has to say both.
_ASKS = re.compile(rb"exists|is_?file")
_NAMES = re.compile(rb"[lL]ock|LOCK|pid|PID")
_OF_PATH = frozenset("os.path.exists os.path.lexists os.path.isfile".split())
_METHODS = frozenset(("exists", "is_file"))
_WRITES = frozenset("write_text write_bytes touch".split())
# Something else makes one of them wait: the file itself, or a lock around the function.
_EXCLUSIVE = re.compile(
    r"O_EXCL|\bflock\b|\blockf\b|FileExistsError|FileLock|InterProcessLock|portalocker|os\.link\b|[\"']x[bt+]*[\"']"
)
_PIDS = frozenset(("pid", "pidfile", "pidpath"))
_FILES = frozenset("file path pid pidfile pidpath lockfile lockpath".split())


def check(module: Module) -> Iterator[Violation]:
    for function in module.functions_with(_LOOKS):
        for call in function.calls:
            file = _looked_for(module, call)
            if file is None or not _is_refused(module, function, call, file):
                continue
            if _EXCLUSIVE.search(_text(module, function)) or _is_locked(module, function, call):
                break
            if _is_written(module, function, call, file):
                yield Violation(
                    node=call,
                    message=f"two processes can both find no {ast.unparse(file)} before either writes it: "
                    "open(..., 'x') creates it in one step, or fails",
                    function=owned_name(function),
                )
                break


def _text(module: Module, function: Function) -> str:
    lines: list[str] | None = module.memo.get("lines")
    if lines is None:
        lines = module.memo["lines"] = module.source.splitlines()
    return "\n".join(lines[function.node.lineno - 1 : function.node.end_lineno])


def _is_locked(module: Module, function: Function, call: ast.Call) -> bool:
    return any(inside(call, node) for scope in function.chain() for node in locks_of(module, scope))


def _looked_for(module: Module, call: ast.Call) -> ast.expr | None:
    """The path in `os.path.exists(LOCK_FILE)` or `LOCK_FILE.exists()`, if its name says lock or PID."""
    file: ast.expr | None = None
    if module.resolve(call.func) in _OF_PATH and call.args:
        file = call.args[0]
    elif isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS and not call.args:
        file = call.func.value
    said = words(last(path(file)))
    locky = is_locky(last(path(file))) or not {"lockfile", "lockpath"}.isdisjoint(said)
    return file if not _FILES.isdisjoint(said) and (locky or not _PIDS.isdisjoint(said)) else None


def _is_refused(module: Module, function: Function, call: ast.Call, file: ast.expr) -> bool:
    """Whether the function does nothing more if the file is there, or writes it only if it is not."""
    name = path(file)
    for test in function.tests:
        if not isinstance(test, ast.If):
            continue
        if (
            isinstance(test.test, ast.UnaryOp)
            and isinstance(test.test.op, ast.Not)
            and test.test.operand is call
        ):
            return True
        if test.test is call:
            return any(_ends(node, name) for statement in test.body for node in ast.walk(statement))
    return False


def _ends(node: ast.AST, name: str) -> bool:
    """`return False`, `raise`, `sys.exit()`. One that returns what the file says uses it as a file."""
    match node:
        case ast.Raise():
            return True
        case ast.Return(value=value):
            return value is None or not any(
                path(inner) == name for inner in ast.walk(value) if isinstance(inner, ast.expr)
            )
        case ast.Call(func=func):
            return path(func) in ("sys.exit", "exit", "quit", "os._exit")
        case _:
            return False


def _is_written(module: Module, function: Function, look: ast.Call, file: ast.expr) -> bool:
    same = ast.dump(file)
    for call in function.calls:
        if position(call) <= position(look):
            continue
        target, mode = _opened(module, call)
        if target is not None and ast.dump(target) == same and mode[:1] in ("w", "a"):
            return True
    return False


def _opened(module: Module, call: ast.Call) -> tuple[ast.expr | None, str]:
    """The path that a call opens or writes, and how."""
    if module.resolve(call.func) in ("open", "io.open") and call.args:
        return call.args[0], _mode(argument(call, 1, "mode"))
    if not isinstance(call.func, ast.Attribute):
        return None, ""
    if call.func.attr == "open":
        return call.func.value, _mode(argument(call, 0, "mode"))
    if call.func.attr in _WRITES:
        kept = argument(call, 1, "exist_ok") if call.func.attr == "touch" else None
        return call.func.value, "x" if isinstance(kept, ast.Constant) and kept.value is False else "w"
    return None, ""


def _mode(node: ast.expr | None) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else "r"


RULE = Rule(
    code="SG312",
    name="lock-file-in-two-steps",
    summary="a lock or PID file is looked for and then written: two processes can both find none",
    confidence="high",
    scope="fleet",
    hints=(
        (b"lock", b"LOCK", b"Lock", b"pid", b"PID"),
        (b"exists", b"isfile", b"is_file"),
        (b"write_text(", b"write_bytes(", b"touch(", b"open("),
        (b"file", b"FILE", b"File", b"path", b"PATH", b"Path", b"pid", b"PID"),
    ),
    near=lambda text: text.definitions.share(_NAMES, _ASKS),
    check=check,
    documentation=Documentation(
        what="A function asks whether a lock file or a PID file exists, and writes it if it does not.",
        why=(
            "Workers start at the same moment. Several find no file, each writes it, and all of them work. A process "
            "that is killed leaves its file, so that no later one works."
        ),
        example="if LOCK_FILE.exists():\n    return False\nLOCK_FILE.write_text(str(os.getpid()))\nreturn True",
        instead=(
            "try:\n    LOCK_FILE.open('x').close()   # creates it in one step\nexcept FileExistsError:\n"
            "    return False\n# or a lease, which ends by itself after its holder, also on other machines: "
            "`async with leases.hold(name):`"
        ),
        unless="Only one process ever starts, or a lock around the function makes the others wait.",
        sure=(
            "High: the tested and the written path are spelled in the same way, and the name says lock or PID. "
            "Silent if the function shows `O_EXCL`, `flock`, a lock or `FileExistsError`, and if it returns what "
            "the file says."
        ),
        fix="No automatic fix: what a stale file means, and who removes it, is for the program to say.",
    ),
)
