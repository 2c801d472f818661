"""What a worker must know, carried from the runner by the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

__all__ = ["KEY", "PATH", "AppSettings"]

_PREFIX: Final = "HTTP_BENCH_"
KEY: Final = "report"
PATH: Final = "/report"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSettings:
    """One peer's worker. `ttl`: seconds that an answer is fresh, `seconds`: those that the application takes for it.
    Each call of the application is a line of `journal`; what a peer keeps in files goes into `folder`."""

    peer: str
    redis_url: str
    namespace: str
    ttl: int
    seconds: float
    folder: str

    @property
    def journal(self) -> Path:
        return Path(self.folder) / f"{self.namespace}.journal"

    def to_environment(self) -> dict[str, str]:
        return {f"{_PREFIX}{name.upper()}": str(value) for name, value in asdict(self).items()}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> AppSettings:
        def read(name: str) -> str:
            return environment[f"{_PREFIX}{name}"]

        return cls(
            peer=read("PEER"),
            redis_url=read("REDIS_URL"),
            namespace=read("NAMESPACE"),
            ttl=int(read("TTL")),
            seconds=float(read("SECONDS")),
            folder=read("FOLDER"),
        )
