"""What a worker must know, carried from the runner by the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from bench.herd.modes import MODES, Mode

__all__ = ["AppSettings"]

_PREFIX: Final = "HERD_"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSettings:
    """One mode's worker: where its servers are, and the entry's lifetimes in seconds."""

    mode: Mode
    database_url: str
    redis_url: str
    namespace: str
    ttl: float
    stale_ttl: float

    def to_environment(self) -> dict[str, str]:
        return {f"{_PREFIX}{name.upper()}": str(value) for name, value in asdict(self).items()}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> AppSettings:
        """Raises `RuntimeError` with the names of missing or unknown variables."""

        def read(name: str) -> str:
            try:
                return environment[f"{_PREFIX}{name}"]
            except KeyError:
                raise RuntimeError(f"{_PREFIX}{name} is not set; workers are started by bench.herd") from None

        modes = {mode: mode for mode in MODES}
        name = read("MODE")
        if name not in modes:
            raise RuntimeError(f"unknown mode {name!r}; it must be one of {', '.join(modes)}")
        return cls(
            mode=modes[name],
            database_url=read("DATABASE_URL"),
            redis_url=read("REDIS_URL"),
            namespace=read("NAMESPACE"),
            ttl=float(read("TTL")),
            stale_ttl=float(read("STALE_TTL")),
        )
