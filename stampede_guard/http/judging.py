"""What happens to a response of the application: stored, with which lifetimes, or the reason why not."""

from __future__ import annotations

import functools
import hashlib
import re
import secrets
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from stampede_guard.http.queries.rules import search_rule
from stampede_guard.http.requests.choosing import knows_users
from stampede_guard.http.requests.exchange import content_length
from stampede_guard.http.requests.origin import tag_of_path, tag_of_url, tags_of_groups
from stampede_guard.http.requests.request import CacheRequest
from stampede_guard.http.requests.requester import Requester, is_safe_listed
from stampede_guard.http.requests.settings import Settings
from stampede_guard.http.requests.stored import StoredResponse
from stampede_guard.http.spec.directives import MOST_SECONDS, Directives, effective
from stampede_guard.http.spec.fields import first, has, is_of_one_requester, lines, token, without
from stampede_guard.http.spec.freshness import Lifetime, corrected_initial_age, lifetime
from stampede_guard.http.spec.groups import groups_of
from stampede_guard.http.spec.message import Fields, Request, Response
from stampede_guard.http.spec.ranges import content_range
from stampede_guard.http.spec.reuse import may_serve_on_error
from stampede_guard.http.spec.storing import (
    Refusal,
    has_validator,
    is_about_one_request,
    may_store,
    stored_fields,
)
from stampede_guard.http.spec.vary import names_in_vary, nominated
from stampede_guard.http.users.outside import has_user, session_of, uses_session
from stampede_guard.policy import Policy

__all__ = [
    "LONGEST_STORED",
    "SERVER_ERRORS",
    "arrived",
    "is_anybodys",
    "judge",
    "lifetimes",
    "names_somebody",
    "replaces_errors",
    "requester_of",
    "served_stale_for",
    "with_body",
]

SERVER_ERRORS = frozenset({500, 502, 503, 504})
"""RFC 5861, 4: a stale response may replace these, or a missing response."""

_OF_ROUTES = frozenset({200, 203, 204, 300, 301, 308})
"""An error status, or a temporary redirect, is stored only if the application's own fields allow it."""
_ENDLESS = frozenset({b"text/event-stream", b"multipart/x-mixed-replace"})
_SAYS_SOMETHING = frozenset({b"no-store", b"private", b"no-cache", b"max-age", b"s-maxage"})
_GENERAL = frozenset({400, *range(452, 500)})
_CONTROL = re.compile(rb"[\r\n\0]")
"""RFC 9110, 5.5: a downstream server may read these as another line."""
_SHORTEST = 0.001
LONGEST_STORED = 10 * 366 * 86_400.0
"""Seconds: no policy has a longer lifetime."""
_MOST_ON_THE_WAY = 0.5
"""The largest share of its lifetime that a response's travel time may count. RFC 9111, 4.2.3, has no such bound.
But a response that takes longer to make than it is fresh would be useless to its waiters, and each would call the
application.
"""
_LITTLE = 60.0
"""Seconds that a stale response without a validator is kept: for clients that accept it, and for HEAD."""


def judge(
    request: CacheRequest,
    response: Response,
    settings: Settings,
    *,
    requested_at: float,
    received_at: float,
    dated: Fields | None = None,
    method: str = "GET",
    nonce: str = "",
    session: str | None = None,
) -> StoredResponse | Refusal:
    """The response as it will be stored, without its body yet; or why it is not stored. `dated` has the fields that
    give its age, if these come from the 304 that found it unchanged. `session`: before the application was called.
    """
    told = _told(request, response, settings, received_at)
    if isinstance(told, str):
        return told
    directives, life = told
    stripped = _without_what_is_personal(response, directives, settings)
    if stripped is None or (session is not None and _has_new_session(request, settings, session)):
        return "set-cookie"
    response = stripped
    refusal = may_store(_as_asked(request, method), response, directives, life)
    refusal = refusal or _stricter(request, response, settings, directives, life)
    if refusal is not None:
        return refusal
    held = content_range(response) if response.status == 206 else None
    if response.status == 206 and held is None:
        return "partial"
    names = _names_varied(request, response)
    if names is None:
        return "vary"
    groups = groups_of(response.fields)
    if groups is None:
        return "groups"
    search = search_rule(response.fields) if request.is_searchable else ""
    age = corrected_initial_age(
        response.fields if dated is None else dated,
        requested_at=max(requested_at, received_at - _on_the_way(life)),
        received_at=received_at,
    )
    return StoredResponse(
        status=response.status,
        fields=without(stored_fields(response, directives), (b"age",)),
        body=b"",
        age=age,
        lifetime=life.seconds,
        directives=tuple(directives.values.items()),
        vary=names,
        nominated=nominated(request.fields, names),
        nonce=(nonce or secrets.token_hex(6)) if names else "",
        part=() if held is None else (held.first, held.last, -1 if held.length is None else held.length),
        asked=b"" if held is None else _range_of(request),
        keep=_keep(response, directives, settings, varies=bool(names)),
        targeted=directives.targeted,
        guessed=not _is_declared(directives, life),
        tags=_tags(request, groups, search),
        search=search,
    )


def _range_of(request: CacheRequest) -> bytes:
    """Of two Range lines, the application may have answered either."""
    told = lines(request.fields, b"range")
    return told[0] if len(told) == 1 else b""


def _as_asked(request: CacheRequest, method: str) -> Request:
    """RFC 9111, 3.5, concerns shared entries. The credentials of a known user are in the user's key."""
    fields = without(request.asking, (b"authorization",)) if request.user else request.asking
    return Request(method, request.target.url, fields)


def _for_user(directives: Directives) -> Directives:
    """RFC 9111, 5.2.2.7: `private` without a list of fields allows entries for one user."""
    if b"private" not in directives or directives.names(b"private"):
        return directives
    left = {name: value for name, value in directives.values.items() if name != b"private"}
    return Directives(left, targeted=directives.targeted)


def _told(
    request: CacheRequest, response: Response, settings: Settings, received_at: float
) -> tuple[Directives, Lifetime] | Refusal:
    """What the response's own fields state, or its route if they state nothing."""
    own = effective(response.fields, settings.targets)
    if request.user:
        own = _for_user(own)
    route = request.route
    if route is None or _says_something(response, own):
        life = lifetime(response, own, received_at=received_at)
        if life.source == "heuristic" and not settings.heuristics:
            life = Lifetime(0.0, "none")
        return own, life
    if response.status not in _OF_ROUTES and response.status not in route.statuses:
        return "status"
    if has(response.fields, b"set-cookie") and settings.set_cookie != "strip":
        return "set-cookie"
    if _is_endless(response):
        return "stream"
    # RFC 9111, 4.2.4, forbids stale responses with the route's s-maxage. The application did not send that.
    default = {b"stale-if-error": b"%d" % settings.stale_if_error} if settings.stale_if_error else {}
    return Directives({**default, **own.values, **route.directives.values}), Lifetime(
        float(route.ttl), "route"
    )


def _says_something(response: Response, own: Directives) -> bool:
    return own.targeted or has(response.fields, b"expires") or not _SAYS_SOMETHING.isdisjoint(own.values)


def _is_endless(response: Response) -> bool:
    """This kind of response has no end until its client leaves. Others would wait for that, and it would be kept
    alive for them.
    """
    kind = (first(response.fields, b"content-type") or b"").partition(b";")[0].strip().lower()
    return kind in _ENDLESS


def _without_what_is_personal(
    response: Response, directives: Directives, settings: Settings
) -> Response | None:
    """Without the fields for one client; None = it is not stored because of them. Fields listed by `no-cache` or
    `private` are always left out.
    """
    if settings.set_cookie == "store":
        return response
    listed = directives.names(b"no-cache") | directives.names(b"private")
    personal = {name for name, _ in response.fields if is_of_one_requester(name)} - listed
    if not personal:
        return response
    if settings.set_cookie == "refuse":
        return None
    return replace(response, fields=without(response.fields, personal))


def _has_new_session(request: CacheRequest, settings: Settings, before: str) -> bool:
    """Whether a middleware around this one will set a cookie."""
    return settings.set_cookie == "refuse" and session_of(request.scope) != before


def _stricter(
    request: CacheRequest, response: Response, settings: Settings, directives: Directives, life: Lifetime
) -> Refusal | None:
    """The cases in which this cache stores less than RFC 9111 allows: it shares only what was declared to be for
    all.
    """
    if _is_malformed(response) or _CONTROL.search(b"".join([value for _, value in request.fields])):
        return "malformed"
    known = _known_by(request, settings)
    if known:
        # What a route says of all its responses is not what the application says of this one.
        said = directives if request.route is None else effective(response.fields, settings.targets)
        if not _is_for_all(known, said):
            return "credentials"
    safe = settings.heuristics and is_safe_listed(request.fields)
    if is_about_one_request(response.status) and b"public" not in directives:
        listed = request.route is not None and response.status in request.route.statuses
        # A 400, and similar general errors (RFC 9110, 15), for a request without special fields.
        if not listed and not (safe and response.status in _GENERAL):
            return "status"
    return None if safe or _is_declared(directives, life) else "nothing to go by"


def _is_malformed(response: Response) -> bool:
    """Whether a downstream server may read another response, or another length, in it."""
    return (
        # Two lines, also equal ones, or no number, or one beyond all sizes: nobody could compare it with the body.
        (has(response.fields, b"content-length") and content_length(response.fields) is None)
        or not all(map(token, [name for name, _ in response.fields]))
        or _CONTROL.search(b"".join([value for _, value in response.fields])) is not None
    )


def _is_declared(directives: Directives, life: Lifetime) -> bool:
    """Whether the application, or a route, has declared that the response may be stored."""
    return life.explicit or b"public" in directives or b"no-cache" in directives


def _tags(request: CacheRequest, groups: tuple[str, ...], search: str) -> tuple[str, ...]:
    found = tags_of_groups(groups, request.target, request.fields) if groups else ()
    if search:
        found = (*found, tag_of_path(request.target.path))
    if request.is_one_of_many:
        return (*found, tag_of_url(request.target, request.fields, request.route))
    return found


def _names_varied(request: CacheRequest, response: Response) -> tuple[bytes, ...] | None:
    """The request fields that select the response: those in its Vary, its route's, and those that go unsaid."""
    names = names_in_vary(response.fields)
    if names is None:
        return None
    of_route = () if request.route is None else request.route.names
    unsaid = _varies_unsaid(response)
    if (
        request.route is None
        and not request.user
        and "session" in request.scope
        and uses_session(request.scope)
    ):
        unsaid.add(b"cookie")
    return tuple(sorted({*names, *of_route, *unsaid})) if of_route or unsaid else names


def _varies_unsaid(response: Response) -> set[bytes]:
    """Request fields that selected the response, although its Vary omits them."""
    found = set()
    coding = b", ".join(lines(response.fields, b"content-encoding")).lower()
    if coding not in (b"", b"identity"):
        # Otherwise a client that cannot read it would be served a compressed body.
        found.add(b"accept-encoding")
    if (first(response.fields, b"access-control-allow-origin") or b"*") != b"*":
        found.add(b"origin")
    return found


def _known_by(request: CacheRequest, settings: Settings) -> AbstractSet[bytes]:
    """What identifies the user of a request whose response might be stored for others: fields, or else the scope."""
    if request.user:
        return frozenset()
    known: AbstractSet[bytes] = frozenset()
    if request.route is None:
        # A route has been chosen only if the request has nothing of that kind that is not in its key.
        known = settings.credentials({name for name, _ in request.fields})
    if not known and not knows_users(request.route) and has_user(request.scope):
        return _BY_SCOPE
    return known


_BY_SCOPE = frozenset({b"user"})


def names_somebody(request: CacheRequest, settings: Settings) -> bool:
    """Whether the request identifies its user, and its response might be stored for others."""
    return bool(_known_by(request, settings))


def requester_of(request: CacheRequest, settings: Settings) -> Requester:
    """Nobody who identifies himself is an ordinary one, whatever his fields show."""
    told = request.requester
    return told._replace(ordinary=False) if told.ordinary and names_somebody(request, settings) else told


def is_anybodys(request: CacheRequest, settings: Settings) -> bool:
    """Whether its response would be the same for all clients, and is complete."""
    return request.method != "HEAD" and not names_somebody(request, settings)


def _is_for_all(known: AbstractSet[bytes], directives: Directives) -> bool:
    """RFC 9111, 3.5, for every field that identifies the user. must-revalidate has this meaning for Authorization
    only: applications that send it with a cookie do not mean that. So it is not enough for a request that has both, as
    to a site that asks all its visitors for one password.
    """
    if b"public" in directives or b"s-maxage" in directives:
        return True
    return b"must-revalidate" in directives and known <= {b"authorization"}


def _on_the_way(life: Lifetime) -> float:
    """Seconds of travel time that count for a response's age. For a route's lifetime, the time counts from here."""
    return 0.0 if life.source == "route" else life.seconds * _MOST_ON_THE_WAY


def arrived(
    draft: StoredResponse, request: CacheRequest, head: Response, settings: Settings, *, seconds: float
) -> StoredResponse:
    """The response when its body has come, so many seconds after its fields. RFC 9111, 4.2.3: its age counts from
    these. The bound, and the exception of routes, are those of the time that it was on the way.
    """
    if request.route is not None and not _says_something(head, effective(head.fields, settings.targets)):
        return draft
    most = draft.lifetime * _MOST_ON_THE_WAY - draft.age
    return replace(draft, age=draft.age + max(0.0, min(seconds, most)))


def _keep(response: Response, directives: Directives, settings: Settings, *, varies: bool) -> float:
    told = [directives.seconds(name) or 0 for name in (b"stale-while-revalidate", b"stale-if-error")]
    usual = settings.keep if varies or has_validator(response.fields) else min(_LITTLE, settings.keep)
    return float(max(*told, usual, settings.stale_if_error))


def replaces_errors(stored: StoredResponse, age: float, request: CacheRequest, settings: Settings) -> bool:
    """RFC 9111, 4.2.4, and RFC 5861, 4: whether it may be served in place of an error, although it is stale. By
    default, a stored error does not replace a newer one.
    """
    situation = stored.situation(age)
    default = 0.0 if stored.status in SERVER_ERRORS else settings.stale_if_error
    return not situation.always_validated and may_serve_on_error(situation, request.asking, default=default)


def served_stale_for(stored: StoredResponse, settings: Settings) -> float:
    """Seconds for which it may be of use after its lifetime, if it is never validated."""
    situation = stored.situation(stored.age)
    if situation.never_stale:
        return 0.0
    told = [
        situation.directives.seconds(name) or 0 for name in (b"stale-while-revalidate", b"stale-if-error")
    ]
    return float(max(*told, 0.0 if situation.stale_only_if_told else settings.stale_if_error))


def with_body(draft: StoredResponse, body: bytes, *, add_etag: bool) -> StoredResponse:
    fields = draft.fields
    if add_etag and draft.status == 200 and not has(fields, b"etag"):
        tag = hashlib.blake2b(body, digest_size=12).hexdigest().encode()
        fields = (*fields, (b"etag", b'"' + tag + b'"'))
    return replace(draft, body=body, fields=fields)


def lifetimes(stored: StoredResponse, policy: Policy) -> Policy | None:
    """How long the engine keeps it: fresh, then as long as it may be useful; None = it is not stored."""
    if stored.unstorable:
        return None
    left = min(stored.lifetime, float(MOST_SECONDS)) - stored.age
    # In whole milliseconds, as the store counts: so responses that were made equally fast share a policy.
    return _lasting(
        policy, min(max(round(left, 3), _SHORTEST), LONGEST_STORED), min(stored.keep, LONGEST_STORED)
    )


@functools.lru_cache(maxsize=256)
def _lasting(policy: Policy, ttl: float, stale_ttl: float) -> Policy:
    """A changed policy is checked as a whole, which takes long. Most responses of a program have a few lifetimes."""
    return policy.replace(ttl=ttl, stale_ttl=stale_ttl)
