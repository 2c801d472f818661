"""The clock of our own tests is the one that users get for theirs."""

from __future__ import annotations

from stampede_guard.testing import FakeClock as Clock

__all__ = ["Clock"]
