"""SG501: several schedulers on one APScheduler 3 job store."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module
from stampede_guard.audit.source.startup import is_elected, is_main, is_single_program
from stampede_guard.audit.source.words import last, path, text_of

_STORES = re.compile(
    r"^apscheduler\.jobstores\.\w+\.(?:SQLAlchemy|Redis|MongoDB|RethinkDB|ZooKeeper|Etcd)JobStore$|"
    r"^django_apscheduler\.jobstores\.DjangoJobStore$"
)


def check(module: Module) -> Iterator[Violation]:
    if is_single_program(module) or "BlockingScheduler" in module.source:
        return
    for call in module.calls:
        function = module.owners.get(call)
        named = last(path(call.func)) == "add_jobstore" and text_of(call.args[0] if call.args else None) in (
            "sqlalchemy",
            "redis",
            "mongodb",
        )
        if not (_STORES.match(module.resolve(call.func)) or named):
            continue
        if is_main(module, call) or (function is not None and is_elected(module, function)):
            continue
        yield Violation(
            node=call,
            message="APScheduler 3 does not coordinate schedulers on one job store: each of them runs each job",
            function=function.name if function else "",
        )


RULE = Rule(
    code="SG501",
    name="shared-jobstore",
    summary="several schedulers on one APScheduler 3 job store (it does not prevent double runs)",
    confidence="medium",
    scope="fleet",
    hints=((b"cheduler",), (b"obStore", b"add_jobstore")),
    check=check,
    documentation=Documentation(
        what="A scheduler of a web application keeps its jobs in a database or in Redis.",
        why="APScheduler 3 documents that schedulers must not share a job store. The store does not lock, "
        "so every worker's scheduler finds the job due and runs it.",
        example='AsyncIOScheduler(jobstores={"default": RedisJobStore(...)})',
        instead="One scheduler process; or elect the worker that starts it, or give each firing to one worker "
        "(see SG401).",
        unless="Exactly one process uses the store.",
        sure="Medium: the file does not show how many processes there are.",
        fix="No automatic fix: your deployment decides whether one process schedules or one "
        "worker is elected.",
    ),
)
