"""Whether the server's clock runs correctly: all tokens and deadlines come from this clock."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.ops.doctor.diagnosis import Diagnosis
from stampede_guard.ops.doctor.facts import Facts, ServerFacts

__all__ = ["check"]

FAR = 5.0
"""Seconds of offset that are worth a warning."""


def check(facts: Facts, server: ServerFacts) -> Iterator[Diagnosis]:
    step, pause, offset = server.clock_step, server.clock_pause, server.clock_offset
    if step is None or pause is None or offset is None:
        yield Diagnosis("clock", "unknown", "TIME is not permitted: " + server.errors.get("clock", ""))
        return
    if step <= 0 or abs(step - pause) > 1.0:
        seen = f"its clock advanced by {step:.3f} s in {pause:.3f} s"
        mend = "the server's machine steps or stops its clock: let it slew (chrony, ntpd), not step"
        yield Diagnosis("clock", "fail", seen, mend)
    elif abs(offset) > FAR:
        seen = f"it goes, {abs(offset):.0f} s {'before' if offset > 0 else 'behind'} this machine's"
        yield Diagnosis(
            "clock", "warn", seen, "guards are not affected, but one of the two is wrong: check NTP on both"
        )
    else:
        yield Diagnosis(
            "clock", "ok", f"it goes; {round(offset * 1000):+d} ms from this machine's, which has no effect"
        )
