"""All checks on the same facts."""

from __future__ import annotations

from dataclasses import replace

from stampede_guard.ops.doctor.checks import OF_EACH_SERVER, OF_THE_WHOLE
from stampede_guard.ops.doctor.diagnosis import Diagnosis
from stampede_guard.ops.doctor.facts import Facts

__all__ = ["examine"]


def examine(facts: Facts) -> list[Diagnosis]:
    """What is right and what is wrong, per server. If there are several servers, findings carry the address."""
    found = [finding for check in OF_THE_WHOLE for finding in check(facts)]
    several = len(facts.servers) > 1
    for server in facts.servers:
        if server.reached:
            for each in OF_EACH_SERVER:
                found += [
                    replace(finding, server=server.address if several else "")
                    for finding in each(facts, server)
                ]
    return found
