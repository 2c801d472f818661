"""A job: a function, its schedule, and the terms of its runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from stampede_guard.durations import Duration
from stampede_guard.errors import Misuse, PolicyError
from stampede_guard.jobs.messages import Registration
from stampede_guard.jobs.run import Run
from stampede_guard.jobs.schedules.schedule import Schedule, fingerprint, rhythm
from stampede_guard.jobs.threads import result_of
from stampede_guard.leases import checks
from stampede_guard.leases.core.timing import JOB_TTL, Timing, job_timing
from stampede_guard.options import refuse_others
from stampede_guard.values.arguments.signatures import signature_of

__all__ = ["MISFIRE_GRACE", "Job", "JobOverlap", "Terms", "check_fit", "function_of", "terms_of"]

MISFIRE_GRACE = 60.0
JobOverlap = Literal["skip", "queue", "replace", "allow"]
OVERLAPS = ("skip", "queue", "replace", "allow")
_ATTEMPTS = 3
_DEADMAN_SAMPLE_FROM = (
    1_767_225_600_000  # 2026-01-01, fixed: the rhythm must not depend on the day of a deployment
)


class SlotOptions(TypedDict, total=False):
    """The terms of jobs of APScheduler: see `Terms`."""

    overlap: JobOverlap
    misfire_grace: Duration
    jitter: Duration
    time_limit: Duration | None
    lease_ttl: Duration


class TermOptions(SlotOptions, total=False):
    """The terms of a job: see `Terms`."""

    coalesce: bool
    retry_abandoned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Terms of a job. All times are seconds. Raises `PolicyError`, which names the field and the rule.

    | field | default | meaning |
    |---|---|---|
    | `overlap` | `skip` | a slot while another run of the job goes on: `skip`, `queue`, `replace`, `allow` |
    | `misfire_grace` | 60 | a slot may begin up to so much later; then it is missed |
    | `coalesce` | True | if several slots may begin, only the latest runs |
    | `jitter` | 0 | a run begins up to so much later, at random; its slot stays the same |
    | `time_limit` | None | a run that takes longer is cancelled, and its outcome is `failed` |
    | `retry_abandoned` | False | one attempt; True: a slot whose worker vanished runs again, 3 attempts in all |
    | `lease_ttl` | 60 | a vanished worker blocks the job for so long |
    """

    overlap: JobOverlap = "skip"
    misfire_grace: float = MISFIRE_GRACE
    coalesce: bool = True
    jitter: float = 0.0
    time_limit: float | None = None
    retry_abandoned: bool = False
    lease_ttl: float = JOB_TTL

    if TYPE_CHECKING:
        # More types may be given than are read.
        def __init__(self, **terms: Unpack[TermOptions]) -> None: ...

    def __post_init__(self) -> None:
        if self.overlap not in OVERLAPS:
            raise PolicyError("overlap", self.overlap, f"write one of {', '.join(OVERLAPS)}")
        self._put("misfire_grace", checks.seconds("misfire_grace", self.misfire_grace, least=1.0))
        checks.flag("coalesce", self.coalesce)
        self._put("jitter", checks.seconds("jitter", self.jitter))
        if self.time_limit is not None:
            self._put("time_limit", checks.seconds("time_limit", self.time_limit, least=0.001))
        checks.flag("retry_abandoned", self.retry_abandoned)
        self._put("lease_ttl", job_timing(self.lease_ttl).lease_ttl)
        if self.jitter > self.misfire_grace:
            raise PolicyError(
                "jitter",
                self.jitter,
                f"at most misfire_grace={self.misfire_grace:g}; with more, slots would be missed",
            )

    def _put(self, field: str, seconds: float) -> None:
        object.__setattr__(self, field, seconds)

    @property
    def timing(self) -> Timing:
        return job_timing(self.lease_ttl)

    @property
    def attempts(self) -> int:
        return _ATTEMPTS if self.retry_abandoned else 1

    @property
    def alive_for(self) -> float:
        """A run without heartbeats for so long is abandoned. This is longer than `lease_ttl`: the lease ends first."""
        return self.lease_ttl * 1.5


@dataclass(frozen=True, slots=True)
class Job:
    """`name`: without the namespace. `arguments`: keyword arguments of the function, from a table of schedules."""

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
        """Call the function, with this run if it takes one. A plain function runs in a thread of its own."""
        given = (run,) if self.takes_run else ()
        return await result_of(self.function, given, self.arguments, name=self.name, run=run)

    @property
    def takes_run(self) -> bool:
        """Whether the function takes the `Run`: it has a positional parameter that is not in `arguments`."""
        for parameter in signature_of(self.function).parameters.values():
            positional = parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            if positional and parameter.name not in self.arguments:
                return True
        return False


def terms_of(given: Mapping[str, Any], *, also: tuple[str, ...] = ("name",)) -> Terms:
    """Raises `Misuse` for an unknown name, and whatever `Terms` raises. `also`: other names that may be given."""
    refuse_others("a job", given, (*Terms.__dataclass_fields__, *also))
    return Terms(**given)


def function_of(function: Any, name: str) -> Any:
    """Raises `Misuse` for an object that cannot be run."""
    if not callable(function):
        raise Misuse(f"the job {name!r} needs a function, not {function!r}")
    if isinstance(function, type):
        raise Misuse(
            f"the job {name!r} is the class {function.__name__}, and calling it would only create an object: pass an "
            f"object with __call__, or a method"
        )
    if checks.gives_values(function):
        raise Misuse(
            f"the job {name!r} has `yield`, so a call would run nothing: write a function that returns"
        )
    return function


def check_fit(function: Callable[..., Any], name: str, arguments: Mapping[str, Any]) -> None:
    """Raises `Misuse` unless the function can be called with these arguments, and either a `Run` or nothing else."""
    try:
        parameters = signature_of(function).parameters
    except (TypeError, ValueError):
        raise Misuse(
            f"the parameters of the job {name!r} cannot be read: call it in a function of your own"
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
            f"the job {name!r} is called with its run as the only positional argument, or without arguments, but needs "
            f"{', '.join(parameter.name for parameter in needed)}{' by keyword' if by_keyword else ''}: "
            "bind them with functools.partial, or give them defaults"
        )
