"""Whether a stored response may answer a request, and what else is possible (RFC 9111, 4, 4.2.4 and 5.2.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stampede_guard.http.spec.directives import MOST_SECONDS, Directives, cache_control
from stampede_guard.http.spec.fields import has, members
from stampede_guard.http.spec.message import Fields

__all__ = ["Situation", "Verdict", "asks_for_origin", "may_serve_on_error", "verdict"]

Verdict = Literal["fresh", "stale-while-revalidate", "stale-asked-for", "validate", "gateway-timeout"]


@dataclass(frozen=True, slots=True)
class Situation:
    """`age` and `lifetime` of a stored response, in seconds, and the directives that came with it."""

    age: float
    lifetime: float
    directives: Directives

    @property
    def is_fresh(self) -> bool:
        return self.age < self.lifetime

    @property
    def staleness(self) -> float:
        """Seconds past the lifetime; negative while it is fresh."""
        return self.age - self.lifetime

    @property
    def never_stale(self) -> bool:
        """RFC 9111, 4.2.4 with 5.2.2: it is never served stale, whatever the client asks for."""
        return (
            self.always_validated
            or b"must-revalidate" in self.directives
            or b"proxy-revalidate" in self.directives
        )

    @property
    def stale_only_if_told(self) -> bool:
        """s-maxage means proxy-revalidate for a shared cache (RFC 9111, 5.2.2.10). So neither a client's directive
        nor our default allows serving it stale. An origin that also sends stale-while-revalidate or stale-if-error
        allows exactly that, and caches widely accept it.
        """
        return self.never_stale or b"s-maxage" in self.directives

    @property
    def always_validated(self) -> bool:
        """RFC 9111, 5.2.2.4, without a list of fields."""
        return b"no-cache" in self.directives and not self.directives.names(b"no-cache")


def verdict(situation: Situation | None, request: Fields) -> Verdict:
    """What to do for a request with these fields, with the matching stored response, if there is one.

    `validate` means: ask the origin, with the stored validators if there are any. `gateway-timeout`: the client
    accepts stored responses only (RFC 9111, 5.2.1.7).
    """
    asked = request_directives(request)
    found = _verdict(situation, asked)
    return "gateway-timeout" if found == "validate" and b"only-if-cached" in asked else found


def _verdict(situation: Situation | None, asked: Directives) -> Verdict:
    if situation is None or situation.always_validated or b"no-cache" in asked or b"no-store" in asked:
        return "validate"
    most_age = asked.seconds(b"max-age")
    if most_age is not None and situation.age > most_age:
        # A client that limits the age and also accepts stale responses wants both conditions (5.2.1.2).
        return "validate"
    least_left = asked.seconds(b"min-fresh") or 0
    if situation.is_fresh and -situation.staleness >= least_left:
        return "fresh"
    if situation.is_fresh or situation.never_stale:
        return "validate"
    if (
        b"max-stale" in asked
        and not situation.stale_only_if_told
        and situation.staleness <= _most_staleness(asked)
    ):
        return "stale-asked-for"
    window = situation.directives.seconds(b"stale-while-revalidate")
    # A client that wants a response with some freshness left does not want a stale one.
    if window is not None and not least_left and situation.staleness < window:
        return "stale-while-revalidate"
    return "validate"


def _most_staleness(asked: Directives) -> float:
    """RFC 9111, 5.2.1.2: without a number, any staleness."""
    if asked.values.get(b"max-stale") is None:
        return float(MOST_SECONDS)
    return float(asked.seconds(b"max-stale") or 0)


def request_directives(request: Fields) -> Directives:
    """The request's Cache-Control; without one, `Pragma: no-cache` counts (RFC 9111, 5.4)."""
    if has(request, b"cache-control"):
        return cache_control(request)
    if b"no-cache" in {member.lower() for member in members(request, b"pragma")}:
        return Directives({b"no-cache": None})
    return Directives({})


def asks_for_origin(request: Fields) -> bool:
    """Whether the client itself wants an answer of the origin. Another request's answer must not be used for it."""
    asked = request_directives(request)
    return b"no-cache" in asked or b"no-store" in asked or asked.seconds(b"max-age") == 0


def may_serve_on_error(situation: Situation, request: Fields, *, default: float = 0.0) -> bool:
    """RFC 5861, 4: instead of an error, a response that has been stale for at most `stale-if-error`, which either
    side may state; `default` seconds if neither does. Never a response that must not be served stale.
    """
    if situation.is_fresh:
        return True
    if situation.never_stale:
        return False
    told = situation.directives.seconds(b"stale-if-error")
    if situation.stale_only_if_told:
        return told is not None and situation.staleness < told
    asked = request_directives(request).seconds(b"stale-if-error")
    windows = [float(seconds) for seconds in (told, asked) if seconds is not None]
    return situation.staleness < (max(windows) if windows else default)
