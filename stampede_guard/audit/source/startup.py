"""Code that runs once in every worker: lifespans, start-up hooks, and the functions of the same file that they
call.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.source.branches import leaves
from stampede_guard.audit.source.model import Function, Module, argument
from stampede_guard.audit.source.words import last, path, text_of

_HOOKS = frozenset(
    (
        "startup",
        "on_startup",
        "before_serving",
        "before_first_request",
        "before_server_start",
        "after_server_start",
        "worker_startup",
    )
)
# aiohttp's lists of an application.
_ADDS = re.compile(r"\.(?:on_startup|cleanup_ctx)\.(?:append|extend)$")
# Words without which `started` cannot find anything in a text.
HOOKS = (
    *(
        b"startup",
        b"lifespan",
        b"before_serving",
        b"before_first_request",
        b"server_start",
        b"asynccontextmanager",
    ),
    *(
        b"AppConfig",
        b"create_app",
        b"cleanup_ctx",
        b"aiohttp.web",
        re.compile(rb"aiohttp import[^\n]{0,200}\bweb\b"),
    ),
    re.compile(rb"def \w*(?:start|lifespan|setup|init|boot)\w*\([\s\S]{0,400}?\bapp(?:lication)?\b"),
)
_WEB = re.compile(
    r"\b(?:django_apscheduler|fastapi|starlette|flask|quart|sanic|litestar|django|aiohttp\.web|"
    r"aiohttp import[^\n]{0,200}\bweb|falcon|uvicorn|gunicorn)\b",
    re.IGNORECASE,
)
# Programs with one process: bots, commands, consumers.
_SINGLE = re.compile(
    r"^\s*(?:from|import)\s+(?:discord|disnake|nextcord|telegram|telebot|aiogram|pyrogram|telethon|"
    r"pagermaid|vkbottle|slack_bolt|"
    r"PyQt\w*|PySide\w*|tkinter|kivy)\b",
    re.MULTILINE,
)
# Whole words: `select`, `leader_board` and `pool.acquire()` elect nobody.
_ELECTED = re.compile(
    r"(?<![a-z])(?:advisory|elect(?:ed|s|ion)?|leaders?(?![_ ]?board)|leadership|redlock|setnx|singleton|fcntl|flock|"
    r"file_?lock|exclusive(?:ly)?|dedicated)(?![a-z])|(?<![a-z])nx(?![a-z])|"
    r"(?<!pool)(?<!semaphore)(?<!sem)(?<!limiter)\.acquire\b|acquire_\w*(?:lock|lease|leader)|"
    r"is_primary|is_master|run_scheduler|enable_?scheduler|scheduler_?enabled|WERKZEUG_RUN_MAIN|RUN_MAIN|"
    r"only_once|run_once|scheduler_role|is_worker|process_role|socket\.bind|"
    r"distributed_?lock|worker_lock|lock_key|\bleases?\.hold\b|with_lock|scheduler_?lock|try_lock",
    re.IGNORECASE,
)


_LONG = 150  # lines
_BESIDE = 3  # statements


def is_web(module: Module) -> bool:
    return _WEB.search(module.source) is not None


def is_single_program(module: Module) -> bool:
    return _SINGLE.search(module.source) is not None and not re.search(
        r"fastapi|flask|starlette", module.source, re.I
    )


def started(module: Module) -> list[Function]:
    """Start-up hooks of a web application, and the functions of this file that they call."""
    known: list[Function] | None = module.memo.get("started")
    if known is None:
        known = [function for function in module.functions if _is_hook(module, function)]
        for function in known:
            for call in function.calls:
                callee = module.callee(call, function) or _passed(module, call)
                if callee is not None and callee not in known and len(known) < 60:
                    known.append(callee)
        module.memo["started"] = known
    return known


def _passed(module: Module, call: ast.Call) -> Function | None:
    """`create_task(run())` calls `run`; `add_task(run)` passes it on."""
    for value in call.args[:1]:
        if isinstance(value, ast.Name) and last(path(call.func)) in (
            "create_task",
            "ensure_future",
            "add_task",
            "start_soon",
        ):
            found = module.functions_named(value.id)
            return found[0] if len(found) == 1 else None
    return None


def _is_hook(module: Module, function: Function) -> bool:
    for decorator in function.node.decorator_list:
        name = last(path(decorator))
        if name in _HOOKS:
            return True
        if isinstance(decorator, ast.Call) and name in ("on_event", "listener"):
            first = argument(decorator, 0, "event_type")
            if isinstance(first, ast.Constant) and first.value in (
                "startup",
                "before_server_start",
                "after_server_start",
            ):
                return True
        if name == "asynccontextmanager" and _looks_like_lifespan(function):
            return True
    if function.name in _registered(module):
        return True
    if function.cls is not None and function.name == "ready":
        return any("AppConfig" in path(base) for base in function.cls.bases)
    return _is_named_hook(module, function)


def _is_named_hook(module: Module, function: Function) -> bool:
    """A hook that a main file registers from elsewhere. Its name and its `app` parameter show it."""
    if function.name in ("lifespan", "app_lifespan", "on_startup", "startup_event", "create_app"):
        return is_web(module)
    takes_app = bool(function.parameters & {"app", "application"})
    if takes_app and function.is_async and "aiohttp" in module.source and _yields_once(function):
        return is_web(module)  # for `app.cleanup_ctx`
    return (
        takes_app
        and bool(re.search(r"(?:^|_)(?:startup|lifespan|start|setup|init|boot\w*)(?:_|$)", function.name))
        and (is_web(module))
    )


def _yields_once(function: Function) -> bool:
    """A generator, such as aiohttp's contexts of an application: start, `yield`, end."""
    return sum(isinstance(node, ast.Yield) for node in ast.walk(function.node)) == 1


def _looks_like_lifespan(function: Function) -> bool:
    return "lifespan" in function.name.lower() or bool(
        function.parameters & {"app", "_app", "application", "fastapi_app", "_"}
    )


def _registered(module: Module) -> set[str]:
    names: set[str] | None = module.memo.get("hooks")
    if names is None:
        names = set()
        told = any(
            word in module.source for word in ("add_event_handler", "lifespan", "on_startup", "cleanup_ctx")
        )
        for call in module.calls if told else ():
            if _ADDS.search(path(call.func)) and call.args:
                names |= set(text_of(call.args[0]).split())
            if last(path(call.func)) == "add_event_handler" and len(call.args) == 2:
                if isinstance(call.args[0], ast.Constant) and call.args[0].value == "startup":
                    names.add(last(path(call.args[1])))
            for keyword in call.keywords:
                if keyword.arg == "lifespan":
                    names.add(last(path(keyword.value)))
                elif keyword.arg == "on_startup":
                    names |= set(text_of(keyword.value).split())
        module.memo["hooks"] = names
    return names


def is_elected(module: Module, function: Function, within: Function | None = None) -> bool:
    """Whether the code around it elects one worker. The text of the functions decides, up to `within`."""
    known: dict[Function, bool] = module.memo.setdefault("elected", {})
    for scope in function.chain():
        if scope is within:
            return False
        if scope not in known:
            known[scope] = _ELECTED.search(_source(module, scope)) is not None
        if known[scope]:
            return True
    return False


def is_elected_at(module: Module, function: Function, node: ast.AST) -> bool:
    """The same for one call. A lifespan of several hundred lines starts many things. There, only the tests around the
    call count, the exits before it, and the statements beside it.
    """
    if (function.node.end_lineno or 0) - function.node.lineno < _LONG:
        return is_elected(module, function)
    if function.outer is not None and is_elected(module, function.outer):
        return True
    below, texts = node, [_text(module, module.statement(node))]
    for around in module.up(node):
        if isinstance(around, ast.If | ast.While):
            texts.append(ast.unparse(around.test))
        for block in (getattr(around, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list) and below in block:
                before = block[: block.index(below)]
                texts += [_text(module, s) for s in before if isinstance(s, ast.If) and leaves(s.body[-1])]
                texts += [_text(module, s) for s in before[-_BESIDE:] if not isinstance(s, ast.If | ast.Try)]
        if around is function.node:
            break
        below = around
    return any(_ELECTED.search(text) for text in texts)


def _text(module: Module, node: ast.AST) -> str:
    lines = module.source.splitlines()[node.lineno - 1 : node.end_lineno]  # type: ignore[attr-defined]
    return "\n".join(line.partition("#")[0] for line in lines)


def _source(module: Module, function: Function) -> str:
    lines: list[str] | None = module.memo.get("lines")
    if lines is None:
        lines = module.memo["lines"] = module.source.splitlines()
    decorators = [d.lineno for d in function.node.decorator_list]
    first = min([function.node.lineno, *decorators]) - 1
    kept = [line.partition("#")[0] for line in lines[first : function.node.end_lineno]]
    return "\n".join(kept)


def is_main(module: Module, node: ast.AST) -> bool:
    """Under `if __name__ == "__main__"`."""
    return any(
        isinstance(around, ast.If) and "__name__" in text_of(around.test) for around in module.up(node)
    )


def chained(module: Module, functions: list[Function]) -> Iterator[tuple[Function, ast.Call]]:
    for function in functions:
        for call in function.calls:
            yield function, call
