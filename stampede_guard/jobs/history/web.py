"""Jobs and their history as JSON for a front end: a small read-only ASGI application.

    app.mount("/ops/jobs", jobs.app(allow=is_admin))

| path | answer |
|---|---|
| `/` | every job: its schedule, running slots, last success and failure, and whether it is overdue |
| `/NAME` | its newest runs and statistics; `?limit=` to 500, `?before=` a slot in milliseconds, `?outcome=failed` |
| `/health` | 200, or 503 if a job is overdue: for a probe |

It answers 403 unless `allow(scope)` returns True; `allow` may be a coroutine function. It shows the names of jobs,
errors and counters unchanged. So allow only people that may read the logs.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import parse_qsl

import msgspec

from stampede_guard.errors import Misuse, StampedeError
from stampede_guard.jobs.history.deadman import health_of
from stampede_guard.jobs.history.statistics import statistics
from stampede_guard.jobs.messages import JobView, Outcome, RunView
from stampede_guard.jobs.reporting import log
from stampede_guard.jobs.schedules.schedule import moment
from stampede_guard.leases.owner import called

if TYPE_CHECKING:
    from stampede_guard.jobs.history.records import JobRecords

__all__ = ["Allow", "JobsApp"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Allow = Callable[[Scope], bool | Awaitable[bool]]

MOST_RUNS = 500
LONGEST_QUERY = 1_000


class JobsApp:
    """Made by `Jobs.app(allow=...)`. Without `allow` it answers 403 to every request."""

    def __init__(self, jobs: JobRecords, allow: Allow | None) -> None:
        if allow is not None and not callable(allow):
            raise Misuse(
                f"allow={allow!r}: write a function that takes the ASGI scope and returns True or False"
            )
        self._jobs = jobs
        self._allow = allow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            raise Misuse(f"the jobs application serves HTTP, not {scope['type']}")
        status, body = await self._answer(scope)
        encoded = msgspec.json.encode(body)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(encoded)).encode()),
            (b"cache-control", b"no-store"),
        ]
        if status == 405:
            headers.append((b"allow", b"GET, HEAD"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else encoded})

    async def _answer(self, scope: Scope) -> tuple[int, Any]:
        if scope["method"] not in ("GET", "HEAD"):
            return 405, {"error": "this page is read-only"}
        if not await self._may(scope):
            return 403, {"error": "not allowed"}
        root = scope.get("root_path", "")
        path = scope["path"].removeprefix(root) if scope["path"].startswith(root) else scope["path"]
        # The server has already decoded the path. Do not decode again: `%41` in a name would become another name.
        name = path.strip("/")
        try:
            if name in ("", "health"):
                return await self._overview(only_health=name == "health")
            return await self._one(name, scope.get("query_string", b""))
        except Misuse as error:
            return 404, {"error": str(error)}
        except StampedeError as error:
            log.warning("the jobs application answers 503: %s", error)
            return 503, {"error": "the back end is away"}

    async def _may(self, scope: Scope) -> bool:
        if self._allow is None:
            return False
        answer = self._allow(scope)
        return (await answer if inspect.isawaitable(answer) else answer) is True

    async def _overview(self, *, only_health: bool) -> tuple[int, Any]:
        views = await self._jobs.views()
        jobs = [self._job(view) for view in views]
        late = [job["name"] for job in jobs if job["overdue"]]
        status = 503 if only_health and late else 200
        return status, {"overdue": late} if only_health else {"jobs": jobs, "overdue": late}

    async def _one(self, name: str, query: bytes) -> tuple[int, Any]:
        try:
            wanted = _Wanted.of(query)
        except ValueError as error:
            return 400, {"error": str(error)}
        view = await self._jobs.view(name)
        if view is None:
            return 404, {"error": f"no worker ever registered a job {name!r}"}
        runs = await self._jobs.history(
            name, limit=wanted.limit, before=wanted.before, outcomes=wanted.outcomes
        )
        figures = statistics(runs)
        return 200, {**self._job(view), "statistics": figures, "runs": [_run(run) for run in runs]}

    def _job(self, view: JobView) -> dict[str, Any]:
        health = health_of(view)
        return {
            "name": view.job.removeprefix(self._jobs.leases.prefix),
            "schedule": view.schedule,
            "running": [moment(slot).isoformat() for slot in view.running],
            "last_slot": moment(view.last_slot).isoformat() if view.last_slot else None,
            "last_success": _time(view.last_success_at),
            "last_failure": _time(view.last_failure_at),
            "last_error": view.last_error or None,
            "overdue": health.overdue,
            "paused": _time(view.paused_at),
            "paused_by": view.paused_by or None,
        }


class _Wanted(msgspec.Struct, frozen=True):
    limit: int = 100
    before: int | None = None
    outcomes: tuple[Outcome, ...] = ()

    @classmethod
    def of(cls, query: bytes) -> _Wanted:
        if len(query) > LONGEST_QUERY:
            raise ValueError("the query is too long")
        limit, before, outcomes = 100, None, []
        for key, value in parse_qsl(query.decode("latin-1")):
            if key in ("limit", "before") and not (value.isascii() and value.isdigit() and len(value) < 16):
                raise ValueError(f"{key} must be a whole number")
            if key == "limit":
                limit = min(int(value), MOST_RUNS)
            elif key == "before":
                before = int(value)
            elif key == "outcome":
                if value not in get_args(Outcome):
                    raise ValueError(f"outcome must be one of {', '.join(get_args(Outcome))}")
                outcomes.append(value)
        return cls(limit, before, tuple(outcomes))  # type: ignore[arg-type]


def _run(run: RunView) -> dict[str, Any]:
    seconds = run.finished_at - run.started_at if run.finished_at and run.started_at else None
    return {
        "slot": moment(run.slot).isoformat(),
        "before": run.slot,
        "outcome": run.outcome,
        "attempt": run.attempt,
        "owner": called(run.owner) if run.owner else None,
        "token": run.token or None,
        "started": _time(run.started_at),
        "finished": _time(run.finished_at),
        "seconds": seconds,
        "error": run.error or None,
        "counters": run.counters,
    }


def _time(seconds: float) -> str | None:
    return moment(int(seconds * 1000)).isoformat() if seconds else None


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
