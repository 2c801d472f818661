"""Messages of a herd's processes: one pickled object after its length in eight bytes."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

from stampede_guard.errors import ComputeFailed
from stampede_guard.testing.crowd import CallerOutcome

__all__ = ["LENGTH", "WorkerTask", "Report", "packed", "portable"]

LENGTH = 8


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """The task of one worker. `timeout` is in seconds."""

    module: str
    qualname: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    callers: int
    timeout: float


@dataclass(frozen=True, slots=True)
class Report:
    """`problem`: why this worker could not do its task."""

    problem: str = ""
    computations: int = 0
    outcomes: tuple[CallerOutcome, ...] = ()


def packed(message: Any) -> bytes:
    data = pickle.dumps(message)
    return len(data).to_bytes(LENGTH, "big") + data


def portable(outcome: CallerOutcome) -> CallerOutcome:
    """The same outcome. An error that cannot be pickled becomes one that describes it."""
    error = outcome.error
    if error is None:
        return outcome
    try:
        if type(pickle.loads(pickle.dumps(error))) is type(error):  # our own object, pickled just now
            return outcome
    except Exception:
        pass
    return CallerOutcome(None, ComputeFailed(type(error).__name__, str(error)), outcome.waited)
