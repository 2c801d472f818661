"""A job: a function, its schedule, and what holds for each of its runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from stampede_guard.errors import Misuse, PolicyError
from stampede_guard.leases import checks
from stampede_guard.leases.core.timing import JOB_TTL, Timing, job_timing
from stampede_guard.leases.jobs.run import Run
from stampede_guard.leases.jobs.schedule import Schedule, fingerprint, rhythm
from stampede_guard.leases.jobs.threads import result_of
from stampede_guard.leases.runs.words import Registration

__all__ = ["MISFIRE_GRACE", "Job", "JobOverlap", "Terms", "check_fit", "function_of", "name_of", "terms_of"]

MISFIRE_GRACE = 60.0
JobOverlap = Literal["skip", "queue", "replace", "allow"]
OVERLAPS = ("skip", "queue", "replace", "allow")
_ATTEMPTS = 3
_DEADMAN_SAMPLE_FROM = (
    1_767_225_600_000  # 2026-01-01: the rhythm is the schedule's, not that of the day of a deploy
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Seconds throughout. Raises `PolicyError`, which names the field and the rule.

    | field | default | meaning |
    |---|---|---|
    | `overlap` | `skip` | what a slot does while another run of the job goes on: `skip`, `queue`, `replace`, `allow` |
    | `misfire_grace` | 60 | a slot may begin so late; later it is missed |
    | `coalesce` | True | of several slots that may begin, only the latest runs |
    | `jitter` | 0 | a run begins up to so much later, by chance; its slot stays the same |
    | `time_limit` | None | a run is cancelled after it and has failed |
    | `retry_abandoned` | False | at most once; True: a slot whose worker vanished is run again, 3 attempts in all |
    | `lease_ttl` | 60 | a vanished worker blocks the job for so long |
    """

    overlap: JobOverlap = "skip"
    misfire_grace: float = MISFIRE_GRACE
    coalesce: bool = True
    jitter: float = 0.0
    time_limit: float | None = None
    retry_abandoned: bool = False
    lease_ttl: float = JOB_TTL

    def __post_init__(self) -> None:
        if self.overlap not in OVERLAPS:
            raise PolicyError("overlap", self.overlap, f"write one of {', '.join(OVERLAPS)}")
        checks.seconds("misfire_grace", self.misfire_grace, least=1.0)
        checks.flag("coalesce", self.coalesce)
        checks.seconds("jitter", self.jitter)
        if self.time_limit is not None:
            checks.seconds("time_limit", self.time_limit, least=0.001)
        checks.flag("retry_abandoned", self.retry_abandoned)
        job_timing(self.lease_ttl)
        if self.jitter > self.misfire_grace:
            raise PolicyError(
                "jitter",
                self.jitter,
                f"at most misfire_grace={self.misfire_grace:g}, or it would miss its slots",
            )

    @property
    def timing(self) -> Timing:
        return job_timing(self.lease_ttl)

    @property
    def attempts(self) -> int:
        return _ATTEMPTS if self.retry_abandoned else 1

    @property
    def alive_for(self) -> float:
        """A run is abandoned when nothing was heard of it for so long: longer than its lease, which ends first."""
        return self.lease_ttl * 1.5


@dataclass(frozen=True, slots=True)
class Job:
    """`name`: without the namespace. `arguments`: keywords of the function's, from a table of schedules."""

    name: str
    schedule: Schedule
    function: Callable[..., Any]
    terms: Terms
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def registration(self, prefix: str, version: int) -> Registration:
        return Registration(
            job=prefix + self.name,
            schedule=self.schedule.text,
            fingerprint=fingerprint(self.schedule),
            rhythm=rhythm(self.schedule, _DEADMAN_SAMPLE_FROM),
            version=version,
        )

    async def call(self, run: Run) -> Any:
        """The function with this run, or without where it wants none; a plain one in a thread of its own."""
        given = (run,) if self.takes_run else ()
        return await result_of(self.function, given, self.arguments, name=self.name, run=run)

    @property
    def takes_run(self) -> bool:
        """Whether the function wants the `Run`: its first positional parameter that no argument of a table fills."""
        for parameter in inspect.signature(self.function).parameters.values():
            positional = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            if positional and parameter.name not in self.arguments:
                return True
        return False


def terms_of(given: Mapping[str, Any], *, also: tuple[str, ...] = ("name",)) -> Terms:
    """Raises `Misuse` for a name that is none, and what `Terms` raises. `also`: what else may be written there."""
    checks.no_other("a job", given, (*Terms.__dataclass_fields__, *also))
    return Terms(**given)


def function_of(function: Any, name: str) -> Any:
    """Raises `Misuse` for what cannot be run."""
    if not callable(function):
        raise Misuse(f"the job {name!r} needs a function, not {function!r}")
    if isinstance(function, type):
        raise Misuse(
            f"the job {name!r} is the class {function.__name__}, and to call it would only make an object: give an "
            f"object with __call__, or a method of one"
        )
    if checks.gives_values(function):
        raise Misuse(
            f"the job {name!r} has `yield`, so a call of it would run nothing: write one that returns"
        )
    return function


def check_fit(function: Callable[..., Any], name: str, arguments: Mapping[str, Any]) -> None:
    """Raises `Misuse` for a function that cannot be called with a `Run`, or with nothing, and these arguments."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        raise Misuse(
            f"the job {name!r} does not tell its parameters: call it in a function of your own"
        ) from None
    kinds = {parameter.kind for parameter in parameters.values()}
    unknown = sorted(arguments.keys() - parameters.keys())
    if unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
        raise Misuse(
            f"the job {name!r} has no parameter {', '.join(unknown)}; it has {', '.join(parameters)}"
        )
    needed = [
        parameter
        for parameter in parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and parameter.name not in arguments
    ]
    by_keyword = [parameter.name for parameter in needed if parameter.kind is parameter.KEYWORD_ONLY]
    if len(needed) > 1 or by_keyword:
        raise Misuse(
            f"the job {name!r} is called with its run as the first argument, or with nothing, but needs "
            f"{', '.join(parameter.name for parameter in needed)}{' by keyword' if by_keyword else ''}: "
            "bind them with functools.partial, or give them defaults"
        )


def name_of(function: Any, given: str | None) -> str:
    """What is given, or the function's own name. Raises `Misuse` where neither is one."""
    name = getattr(function, "__name__", "") if given is None else given
    if not name or not isinstance(name, str) or name == "<lambda>":
        raise Misuse("this job has no name: write name=..., the same in every version of your program")
    return name
