"""Check the store's health, for a readiness probe."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from stampede_guard.engine.away.health import StoreHealth
from stampede_guard.errors import StoreError, StoreMisconfigured, StoreRefused

if TYPE_CHECKING:
    from stampede_guard.engine.loops.runtime import Runtime

__all__ = ["check_health"]


async def check_health(runtime: Runtime, name: str) -> StoreHealth:
    """Read an entry, which need not exist, and return the health known after that.

    While the breaker is open, nothing is sent: the result is the health known before.
    """
    if runtime.session.away_for(name):
        return runtime.health.look()
    try:
        await runtime.session.read(name)
    except StoreRefused as error:
        runtime.note_refusal(error)
    except StoreError as error:
        known = runtime.health.look()
        if known.ok:
            # One failure does not open the breaker. But the probe must report it.
            wrong = isinstance(error, StoreMisconfigured)
            return StoreHealth("refused" if wrong else "away", time.time(), _why(error))
        return known
    else:
        runtime.read_answered()
        runtime.health.answered(runtime)
    return runtime.health.look()


def _why(error: StoreError) -> str:
    """The reason. The error of a credential provider may contain a secret, so only its class is named."""
    cause = error.__cause__
    if (
        cause is None
        or isinstance(cause, OSError | StoreError)
        or type(cause).__module__.startswith("redis.")
    ):
        return str(error)
    return f"{type(cause).__name__} while connecting"
