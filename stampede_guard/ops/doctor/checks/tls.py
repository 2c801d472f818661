"""Whether the connection is encrypted."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stampede_guard.ops.doctor.facts import Facts
from stampede_guard.ops.doctor.finding import Finding

__all__ = ["check"]

_HERE = re.compile(r"(unix://|[a-z+]+://([^@/]*@)?(127\.\d+\.\d+\.\d+|localhost|\[::1\])(:\d+)?(,|/|\?|$))")


def check(facts: Facts) -> Iterator[Finding]:
    if facts.tls:
        yield Finding("tls", "ok", "the connection is encrypted, and the certificate was accepted")
    elif _HERE.match(facts.url):
        yield Finding("tls", "ok", "not used, and not needed: the server is on this machine")
    else:
        mend = "write rediss:// unless the network is yours alone: passwords and values travel unencrypted"
        yield Finding("tls", "warn", "the connection is not encrypted", mend)
