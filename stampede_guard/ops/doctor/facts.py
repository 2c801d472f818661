"""Facts about the servers. None stands for an unknown fact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Facts", "ServerFacts"]


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Facts about one master. Times are seconds; `latencies` are round trips of reads, one after the other.

    `info` and `config` are the server's answers (INFO, CONFIG GET), or None if it does not permit them. `denied`:
    the rights that the user lacks, or None if unknown. `errors`: each failed question with its error. `clock_step`:
    how far the server's clock moved between two looks; `clock_pause`: how long that took here. `clock_offset`: its
    clock minus ours. `numsub`: whether scripts may count subscribers.
    """

    address: str
    reached: bool = True
    errors: Mapping[str, str] = field(default_factory=dict)
    latencies: tuple[float, ...] = ()
    info: Mapping[str, str] | None = None
    config: Mapping[str, str] | None = None
    user: str | None = None
    denied: tuple[str, ...] | None = None
    numsub: bool | None = None
    clock_step: float | None = None
    clock_pause: float | None = None
    clock_offset: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """`kind`: "server", "sentinel" or "cluster". `slots_covered`, `replicas`: of a cluster. `versions`: installed
    ones.

    `switches`: the fleet's switches by title, as text; None if they cannot be read. `failure`: why no server
    answered.
    """

    kind: str
    url: str
    tls: bool
    namespace: str
    versions: Mapping[str, str]
    servers: tuple[ServerFacts, ...] = ()
    slots_covered: int | None = None
    replicas: int = 0
    switches: Mapping[str, str] | None = None
    failure: str = ""
