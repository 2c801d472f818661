"""What a trial leaves behind: raw observations, with wall-clock times in seconds, nothing yet concluded."""

from __future__ import annotations

from dataclasses import dataclass, field

from stampede_guard.ops.fleet.herds import HerdStory

__all__ = ["CpuSample", "DatabaseSample", "Recording", "Request"]


@dataclass(frozen=True, slots=True)
class Request:
    """One request as its user saw it. Without an answer, `worker` is 0 and `error` is not empty. `collapsed`: the
    answer's Cache-Status shows that another request's call of the application served it."""

    start: float
    seconds: float
    status: int
    worker: int
    error: str = ""
    collapsed: bool = False

    @property
    def failed(self) -> bool:
        return bool(self.error) or not 200 <= self.status < 400


@dataclass(frozen=True, slots=True)
class DatabaseSample:
    """The aggregate's completed calls so far (pg_stat_statements), and those running: (backend, since)."""

    time: float
    calls: int
    running: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class CpuSample:
    """Shares of the whole machine, 0 to 1, over the interval that ends at `time`.

    `database` is None if the server's processes cannot be seen. Then it is part of `others`, like the time that the
    hypervisor took (steal).
    """

    time: float
    database: float | None
    app: float
    others: float


@dataclass(slots=True)
class Recording:
    """One mode's trial. `ramped`: all users were there; `stopped`: the load ended."""

    mode: str
    ramped: float = 0.0
    stopped: float = 0.0
    requests: list[Request] = field(default_factory=list)
    database: list[DatabaseSample] = field(default_factory=list)
    cpu: list[CpuSample] = field(default_factory=list)
    redis_commands: list[float] | None = None
    herd: HerdStory | None = None
    """One more expiry after the load, seen from inside the workers."""
