"""The levels of loggers, which a test or what it imports may change for all later tests of its process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["as_before"]


@contextmanager
def as_before() -> Iterator[None]:
    """Give the root logger and the library's the levels that they had."""
    loggers = (logging.getLogger(), logging.getLogger("stampede_guard"))
    levels = [logger.level for logger in loggers]
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            if logger.level != level:
                logger.setLevel(level)
