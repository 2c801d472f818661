"""SG401: a scheduler started in every worker."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.startup import is_elected, is_main, is_single_program, is_web, started
from stampede_guard.audit.source.words import last, path

_MADE = re.compile(
    r"(?:AsyncIO|Background|Tornado|Gevent|Twisted|Async)Scheduler|APScheduler|aioclock|rocketry|flask_apscheduler",
    re.I,
)
_NOT = re.compile(r"BlockingScheduler|arq|celery|kombu|sched\.scheduler", re.I)
_CLAIMED = re.compile(r"\b(?:SlotExecutor|once_per_slot|leading)\(")
"""Each worker starts a scheduler, and each firing runs in the worker that gets it. Or the elected worker resumes a
scheduler that starts paused.
"""
_STARTS = re.compile(
    r"^_?(?:start|init|setup|launch|run|boot|register_and_start)_?(?:\w*_)?(?:scheduler|cron|apscheduler)s?(?:_\w+)?$"
)


def check(module: Module) -> Iterator[Violation]:
    if is_single_program(module) or _CLAIMED.search(module.source):
        return
    reached = started(module)
    own = {function.name for function in module.functions}
    for call in module.calls:
        function = module.owners.get(call)
        if is_main(module, call) or (function is not None and is_elected(module, function)):
            continue
        if _starts_one(module, call, function, reached) or (
            function in reached and _starts_by_name(call, own)
        ):
            yield Violation(
                node=call,
                message="each worker starts this scheduler, so each job runs once per worker",
                confidence="high" if function in reached else "medium",
                function=function.name if function else "",
            )


def _starts_one(module: Module, call: ast.Call, function: Function | None, reached: list[Function]) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in (
        "start",
        "start_in_background",
        "init_app",
    ):
        return False
    receiver = call.func.value
    made = origin(module, receiver, function)
    named = "sched" in last(path(receiver)).lower()
    if _NOT.search(made) or (call.func.attr == "init_app" and "apscheduler" not in made.lower()):
        return False
    if function in reached:
        return named or bool(_MADE.search(made))
    if not _MADE.search(made):
        return False
    if function is None:
        return is_web(module)
    return _is_starter(function) and not _is_command(function)


def _is_starter(function: Function) -> bool:
    """A helper that the main file calls. Its name decides, because the main file is another file."""
    return (
        bool(_STARTS.match(function.name))
        or (
            function.name in ("start", "startup", "run", "init", "__init__", "initialize", "setup")
            and function.cls is not None
            and "sched" in function.cls.name.lower()
        )
        or "lifespan" in function.name
    )


def _is_command(function: Function) -> bool:
    decorators = " ".join(path(d) for d in function.node.decorator_list)
    return bool(re.search(r"command|click|typer|\bcli\b", decorators)) or function.name in ("main", "handle")


def _starts_by_name(call: ast.Call, own: set[str]) -> bool:
    """`start_scheduler()` of another file."""
    name = last(path(call.func))
    return isinstance(call.func, ast.Name) and bool(_STARTS.match(name)) and name not in own


RULE = Rule(
    code="SG401",
    name="scheduler-per-worker",
    summary="APScheduler and similar schedulers started in a lifespan or start-up hook without an election",
    confidence="high",
    scope="fleet",
    hints=((b"cheduler", b"_cron"), (b"start", b"init_app")),
    check=check,
    documentation=Documentation(
        what="A scheduler is started in code that every worker runs: in a lifespan, a start-up hook, or a "
        "module of the app.",
        why="Eight workers start eight schedulers. A nightly mail goes out eight times.",
        example="@asynccontextmanager\nasync def lifespan(app):\n    scheduler.start()\n    yield",
        instead="from stampede_guard.jobs.apscheduler.apscheduler3 import SlotExecutor\n\n"
        'scheduler = AsyncIOScheduler(executors={"default": SlotExecutor(jobs)})   # each firing in one worker\n'
        "# or @jobs.cron(...) in its place, an election before it, or a process of its own: docs/jobs.md",
        unless="The program has one process: bots, commands and `__main__` blocks are not reported.",
        sure="High in a lifespan or start-up hook; medium in a helper whose caller is in another file.",
        fix="No automatic fix: the file does not show which worker must run what, and which "
        "store decides it.",
    ),
)
