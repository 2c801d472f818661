"""Whether a store suits a guard: facts are gathered from its servers, and judged apart from that.

One check a file in `checks`, each a pure function from facts to findings, so that each judgement has its tests without
a server.
"""

from __future__ import annotations

from stampede_guard.doctor.examination import examine
from stampede_guard.doctor.facts import Facts, ServerFacts
from stampede_guard.doctor.finding import Finding, Level

__all__ = ["Facts", "Finding", "Level", "ServerFacts", "examine"]
