"""Whether the connection is encrypted."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stampede_guard.ops.doctor.diagnosis import Diagnosis
from stampede_guard.ops.doctor.facts import Facts

__all__ = ["check"]

_HERE = re.compile(r"(unix://|[a-z+]+://([^@/]*@)?(127\.\d+\.\d+\.\d+|localhost|\[::1\])(:\d+)?(,|/|\?|$))")


def check(facts: Facts) -> Iterator[Diagnosis]:
    if facts.tls:
        yield Diagnosis("tls", "ok", "the connection is encrypted, and the certificate was accepted")
    elif _HERE.match(facts.url):
        yield Diagnosis("tls", "ok", "not used, and not needed: the server is on this machine")
    else:
        mend = "write rediss:// unless the network is yours alone: passwords and values travel unencrypted"
        yield Diagnosis("tls", "warn", "the connection is not encrypted", mend)
