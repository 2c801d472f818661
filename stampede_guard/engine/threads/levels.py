"""Whether a logger is enabled for a level, without a lock.

`Logger.isEnabledFor` takes a lock of `logging` when it is asked for the first time after a change of some level.

1. The main thread holds that lock. 2. A signal interrupts it, and the handler calls a cached plain function. 3. The
portal's thread begins a flight and asks whether its steps are logged. With that lock both would wait for ever.
"""

from __future__ import annotations

import logging

__all__ = ["enabled"]


def enabled(logger: logging.Logger, level: int) -> bool:
    """The same answer. It is found anew for each call, by walking up the logger's parents."""
    return not logger.disabled and logger.manager.disable < level and logger.getEffectiveLevel() <= level
