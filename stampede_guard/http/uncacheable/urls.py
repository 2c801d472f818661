"""What a process remembers of URLs whose responses may not be stored: their requests go past the cache.

Such a request asks the store for nothing and joins no flight. This is a memory, and no decision about a response:

- It stores, serves and shares nothing. A request that it lets past gets the application's own response.
- Each response that goes past is judged at its first line (`outlook`). If it may be stored, its URL and its template
  are forgotten, and are not remembered again for an hour. So the next request is cached, also after a collision of
  hashes. URLs that are sometimes cacheable do not change to and fro.

It must not hide a URL that is cacheable, not even if a client wants that:

- A URL is remembered after two such responses to requests that found nothing stored, and only for requests like these
  two, by their fields (see `marks`). While anything is stored, it is served, so no client can bring a cached URL here.
  Errors, parts, and answers to requests with a condition, a directive or another URL for proxies do not count.
- A template (`/items/{id}`) is remembered after `MANY` different URLs, none of which was cacheable, and only if in
  `RIPENING` more seconds none was. A hit in these seconds prevents it, too. So one private URL hides no other one. A
  client can invent URLs, but each cacheable response of the application on the template blocks it for an hour.
- Requests with a field that no browser sends (a cookie, a credential) have a memory of their own. What a signed-in
  visitor gets does not count for anonymous ones.

Its size is fixed. Python's hashes have a secret key per process, so a client cannot choose its place in a table. A
newcomer displaces another URL only after several of its responses. If a client fills the tables, requests cost what
they cost without them. It learns at most that a URL was requested and not stored, which Cache-Status says anyway.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Literal, NamedTuple

from stampede_guard.http.requests.requester import ORDINARY, TELLING
from stampede_guard.http.requests.routes import Scope
from stampede_guard.http.uncacheable.templates import RouteTemplates

__all__ = ["MANY", "RIPENING", "UncacheableUrls", "Visitor", "visitor_of"]

PLACES = 4096
ENOUGH = 2
_MOST = 8
MANY = 32
"""Different URLs of a template."""
RIPENING = 10.0
"""Seconds in which a hit can still keep a template from being remembered."""
LAPSE = 6
"""A template is remembered for so many times the time of a URL after its last response."""
BLOCKED_SECONDS = 3600.0


class TemplateRecord:
    """Of one template, for one kind of requester. `ripe_at` 0: it has not been seen often enough."""

    __slots__ = ("blocked_until", "ripe_at", "until", "urls")

    def __init__(self) -> None:
        self.urls: set[int] = set()
        self.ripe_at = 0.0
        self.until = 0.0
        self.blocked_until = 0.0

    def note(self, url: int, now: float, seconds: float) -> float:
        """A response that may not be stored. Returns when the template is ripe, if this was the last one needed."""
        if now < self.blocked_until:
            return 0.0
        if now >= self.until:
            self.urls.clear()
            self.ripe_at = 0.0
        self.until = now + seconds
        if self.ripe_at:
            return 0.0
        self.urls.add(url)
        if len(self.urls) < MANY:
            return 0.0
        self.urls.clear()
        self.ripe_at = now + RIPENING
        return self.ripe_at

    def knows(self, now: float) -> bool:
        return 0.0 < self.ripe_at <= now < self.until

    def block(self, now: float) -> None:
        self.urls.clear()
        self.ripe_at = 0.0
        self.blocked_until = now + BLOCKED_SECONDS


_Pair = tuple[TemplateRecord, TemplateRecord]


Known = Literal["no", "yes", "worn"]
"""`worn`: yes, but it will soon be forgotten without one more response."""


class Visitor(NamedTuple):
    """Of a request: hashes of its URL, and of its URL with the fields by which an application may distinguish it.
    `special` is 1 if it has a field that no browser sends.
    """

    url: int
    like: int
    special: int


class UncacheableUrls:
    """`seconds`: for how long a URL is remembered after its last response, by `clock`; 0 = nothing is remembered.

    `is_empty`: nothing has been remembered so far. `ripening_until`: until then a hit may prevent something.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self.is_empty = True
        self.ripening_until = 0.0
        self._seconds = seconds
        self._clock = clock
        self._likes = array("q", bytes(8 * PLACES))
        self._counts = array("b", bytes(PLACES))
        self._until = array("d", bytes(8 * PLACES))
        # URLs that had a cacheable response.
        self._blocked = array("q", bytes(8 * PLACES))
        self._blocked_until = array("d", bytes(8 * PLACES))
        self._templates: RouteTemplates[_Pair] = RouteTemplates(lambda: (TemplateRecord(), TemplateRecord()))

    def knows(self, visitor: Visitor, path: str) -> Known:
        """Whether a request goes past the cache."""
        url, like, special = visitor
        now, place = self._clock(), url % PLACES
        if self._blocked[place] == url and self._blocked_until[place] > now:
            return "no"
        place = like % PLACES
        if self._likes[place] == like and self._counts[place] >= ENOUGH:
            left = self._until[place] - now
            if left > 0:
                return "yes" if left > self._seconds / 2 else "worn"
        pair = self._templates.find(path)
        if pair is None or not pair[special].knows(now):
            return "no"
        return "yes" if pair[special].until - now > self._seconds else "worn"

    def note(self, visitor: Visitor, path: str, template: str | None) -> None:
        """A response that may not be stored, for any request."""
        if self._seconds <= 0:
            return
        now = self._clock()
        self._note_url(visitor.like, now)
        pair = self._templates.find(path) if template is None else self._templates.learn(template)
        if pair is None:
            return
        ripe_at = pair[visitor.special].note(visitor.url, now, self._seconds * LAPSE)
        if ripe_at:
            self.ripening_until = max(self.ripening_until, ripe_at)
            self.is_empty = False

    def _note_url(self, like: int, now: float) -> None:
        place = like % PLACES
        count = self._counts[place]
        if self._until[place] <= now or count == 0:
            self._likes[place], self._counts[place], self._until[place] = like, 1, now + self._seconds
        elif self._likes[place] != like:
            self._counts[place] = count - 1
        else:
            self._counts[place] = min(_MOST, count + 1)
            self._until[place] = now + self._seconds
            self.is_empty = False

    def renew(self, visitor: Visitor, path: str) -> None:
        """One more such response, to a request that went past the cache."""
        now, place = self._clock(), visitor.like % PLACES
        if self._likes[place] == visitor.like and self._counts[place] >= ENOUGH:
            self._until[place] = now + self._seconds
            return
        pair = self._templates.find(path)
        if pair is not None and pair[visitor.special].knows(now):
            pair[visitor.special].until = now + self._seconds * LAPSE

    def forget(self, visitor: Visitor, path: str, template: str | None) -> None:
        """A response that may be stored."""
        if self._seconds <= 0:
            return
        now, place = self._clock(), visitor.url % PLACES
        self._blocked[place], self._blocked_until[place] = visitor.url, now + BLOCKED_SECONDS
        if template is not None:
            self._templates.learn(template)
        # Its own template, or one that hides it.
        self._block(path, now)

    def hit(self, path: str) -> None:
        """A stored response was served, before `ripening_until`."""
        now = self._clock()
        if now < self.ripening_until:
            self._block(path, now)
        else:
            self.ripening_until = 0.0

    def _block(self, path: str, now: float) -> None:
        pair = self._templates.find(path)
        if pair is not None:
            pair[0].block(now)
            pair[1].block(now)


def visitor_of(scope: Scope) -> Visitor | None:
    """None: the request has a caching directive, such as only-if-cached, which the cache must obey."""
    special, host = 0, b""
    told = []
    for name, value in scope["headers"]:
        if name in TELLING:
            told.append(value)
        elif name not in ORDINARY:
            special = 1
            told.append(name)
            told.append(value)
        elif name == b"host":
            host = value
        elif name == b"cache-control":
            return None
    path = scope.get("raw_path") or scope["path"]
    url = hash((host, path, scope.get("query_string"), scope.get("scheme")))
    if special:
        client = scope.get("client")
        told.append(client[0] if client else "")
    return Visitor(url, hash((url, *told)), special)
