"""The options of a store's URL that have no effect on a guard. Each is an error, so that it is not ignored silently.

A guard makes its own connections, with its own time-outs, retries and protocol: see `stores.settings`.
"""

from __future__ import annotations

import math
from urllib.parse import parse_qsl

from stampede_guard.errors import UrlError
from stampede_guard.options import takes_options
from stampede_guard.stores.settings import DEADLINE

__all__ = ["LONGEST_DEADLINE", "deadline_from"]

LONGEST_DEADLINE = 30.0
"""Seconds. A caller waits this long for a frozen server before it continues without the server."""

_WITHOUT_EFFECT = {
    "max_connections": "a guard has three connections to each server",
    "timeout": "a guard has no pool to wait for",
    "socket_connect_timeout": "socket_timeout also limits connecting",
    "health_check_interval": "a guard checks quiet connections itself",
    "retry_on_timeout": "a guard does not retry a command",
    "retry_on_error": "a guard does not retry a command",
    "legacy_responses": "a guard parses answers itself",
    "encoding": "a guard stores bytes",
    "encoding_errors": "a guard stores bytes",
}
_ONLY = {"protocol": "2", "decode_responses": "false"}
"""The URL may state what a guard does anyway."""


@takes_options("deadline_from", own=("url",))
def deadline_from(url: str) -> float:
    """Seconds for connecting and for each answer: `socket_timeout` of the URL, else 0.5. Raises `UrlError`."""
    deadline = DEADLINE
    for name, value in parse_qsl(url.partition("?")[2].partition("#")[0], keep_blank_values=True):
        if name in _WITHOUT_EFFECT:
            raise UrlError(
                f"the option {name} of the store URL would have no effect ({_WITHOUT_EFFECT[name]}): leave it out"
            )
        if name in _ONLY and value.lower() != _ONLY[name]:
            raise UrlError(f"the option {name} of the store URL can only be {_ONLY[name]}: leave it out")
        if name == "socket_timeout":
            deadline = _seconds(value)
    return deadline


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LONGEST_DEADLINE:
        raise UrlError(
            f"the option socket_timeout of the store URL is in seconds, more than 0 and at most {LONGEST_DEADLINE:g}, "
            "as in ?socket_timeout=0.5"
        )
    return seconds
