"""SG402: an endless task started in every worker."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.startup import HOOKS, is_elected, is_elected_at, is_single_program, started
from stampede_guard.audit.source.words import last, path, words

_TASKS = frozenset(("create_task", "ensure_future", "start_soon", "add_task", "Thread"))
# Tasks that each worker needs: consumers that share the work, and housekeeping of the process itself.
_OWN = frozenset(
    "consume consumer consumers consuming kafka rabbit rabbitmq amqp listen listener listening subscribe subscriber "
    "subscription pubsub receive receiver heartbeat heartbeats websocket websockets ws broadcast broadcaster stream "
    "streams streaming streamer metric metrics flush flusher watchdog ping pinger keepalive queue dispatch dispatcher "
    "drain drainer log logs logger logging batch batcher local memory connection connections pool health reload "
    "reloader watch watcher lag profile profiler profiling gauge gauges warm warmer warmup preload load loader init "
    "initialize startup once connect serve server bot polling shutdown grpc".split()
)
_OWN_PAIRS = ("keep alive", "in process", "collect stats", "monitor event", "in memory", "local cache")
_PERIODIC = frozenset(
    "periodic periodically loop cron scheduler schedule cleanup clean refresh sync poll poller "
    "purge expire reaper updater "
    "recurring daily hourly nightly scan sweep sweeper retention archive job jobs rotate digest "
    "reminder reminders".split()
)


def check(module: Module) -> Iterator[Violation]:
    yield from _repeated(module)
    if is_single_program(module):
        return
    for function in started(module):
        for call in function.calls:
            if last(path(call.func)) not in _TASKS or is_elected_at(module, function, call):
                continue
            if _is_endless(module, call, function):
                yield Violation(
                    node=call,
                    message="each worker starts this loop, so its work is done once per worker",
                    function=function.name,
                )


def _repeated(module: Module) -> Iterator[Violation]:
    for function in module.functions:
        for decorator in function.node.decorator_list:
            name = module.resolve(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if name.rpartition(".")[2] != "repeat_every" or is_elected(module, function) or _own(function):
                continue
            yield Violation(
                node=decorator,
                message=f"repeat_every runs {function.name}() in every worker",
                confidence="high",
                function=function.name,
            )


def _own(function: Function) -> bool:
    said = words(function.name)
    return not {"metric", "metrics", "heartbeat", "websocket"}.isdisjoint(said) or any(
        pair in " ".join(said) for pair in ("in memory", "local cache")
    )


# With one of these words, a loop about logs or metrics works on what all workers share.
_SHARED = frozenset("aggregate aggregation aggregator rollup retention archive archiver".split())
_RECORDS = frozenset("log logs metric metrics batch".split())


def _is_own(dotted: str) -> bool:
    said = words(dotted)
    if not _SHARED.isdisjoint(said):
        said = tuple(word for word in said if word not in _RECORDS)
    return not _OWN.isdisjoint(said) or any(pair in " ".join(said) for pair in _OWN_PAIRS)


def _is_endless(module: Module, call: ast.Call, function: Function) -> bool:
    work = next(
        (k.value for k in call.keywords if k.arg in ("target", "coro")), call.args[0] if call.args else None
    )
    target = work.func if isinstance(work, ast.Call) else work
    if target is None or not isinstance(target, ast.Name | ast.Attribute):
        return False
    name = last(path(target))
    if _is_own(path(target)):
        return False
    found = module.functions_named(name)
    if len(found) == 1:
        return _loops(found[0]) and not is_elected(module, found[0], within=function)
    return not found and bool(set(words(name)) & _PERIODIC)


def _loops(function: Function) -> bool:
    """`while True` with a sleep in it, and no wait for another program."""
    endless = [loop for loop in function.loops if isinstance(loop, ast.While) and _always(loop.test)]
    sleeps = any("sleep" in path(call.func) or last(path(call.func)) == "wait_for" for call in function.calls)
    takes = any(
        last(path(call.func))
        in ("get", "get_message", "recv", "receive", "receive_text", "xread", "xreadgroup", "blpop", "brpop")
        and isinstance(module_parent, ast.Await)
        for call in function.calls
        for module_parent in function.awaits
        if isinstance(module_parent, ast.Await) and module_parent.value is call
    )
    return bool(endless) and sleeps and not takes


def _always(test: ast.expr) -> bool:
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Attribute(attr=attr) | ast.Name(id=attr):
            return "run" in attr or "stop" in attr or "active" in attr
        case _:
            return False


RULE = Rule(
    code="SG402",
    name="loop-per-worker",
    summary="`repeat_every`, or an endless task created at start-up, without an election",
    confidence="medium",
    scope="fleet",
    hints=(
        (b"repeat_every", b"create_task", b"ensure_future", b"Thread(", b"start_soon", b"add_task"),
        (b"repeat_every", *HOOKS),
    ),
    check=check,
    documentation=Documentation(
        what="`repeat_every` decorates a function, or a lifespan starts a task that loops with a sleep.",
        why="Every worker runs its own loop: the work is done, and costs, once per worker and period.",
        example='@app.on_event("startup")\n@repeat_every(seconds=60)\nasync def refresh_prices(): ...',
        instead="@jobs.every(60)   # stampede_guard.jobs.Jobs: each run in one worker\n"
        "async def refresh_prices(): ...\n\n"
        "# or elect one worker (leases.election), or give the loop a process of its own",
        unless="Each worker needs its own loop. Consumers, heartbeats, metrics and the like are left out, by "
        "their names and by what they wait for.",
        sure="High for repeat_every, medium for tasks.",
        fix="No automatic fix: you must decide which loops each worker needs, and `Jobs` needs a store.",
    ),
)
