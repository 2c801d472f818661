"""Whether a store suits a guard. Facts are collected from its servers first, and checked separately.

One file per check in `checks`. Each is a pure function from facts to findings, so its tests need no server.
"""

from __future__ import annotations

from stampede_guard.ops.doctor.diagnosis import Diagnosis, Level
from stampede_guard.ops.doctor.examination import examine
from stampede_guard.ops.doctor.facts import Facts, ServerFacts

__all__ = ["Diagnosis", "Facts", "Level", "ServerFacts", "examine"]
