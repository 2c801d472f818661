"""What was seen of the servers. None stands for what could not be seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Facts", "ServerFacts"]


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Of one master. Times are seconds; `latencies` are round trips of reads, one after the other.

    `info` and `config` are as the server gives them (INFO, CONFIG GET), None where it is not permitted. `denied`: the
    rights that its user lacks; None where that could not be found out. `errors`: what failed, by what was asked.
    `clock_step`: by how much its clock went on between two looks, and `clock_pause` how long that took here.
    `clock_offset`: its clock before ours. `numsub`: whether scripts may count subscribers.
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
    """`kind`: "server", "sentinel" or "cluster". `slots_covered`, `replicas`: of a cluster. `versions`: installed ones.

    `switches`: the fleet's switches by title, as text; None where they cannot be read. `failure`: why no server at all
    could be asked.
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
