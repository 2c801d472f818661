"""One request's part in a flight: how it asks the application, and what of the answer is for everybody."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from stampede_guard.computation import CURRENT
from stampede_guard.errors import StampedeError
from stampede_guard.http.answer import covers
from stampede_guard.http.exchange import Exchange
from stampede_guard.http.judging import judge, names_somebody, with_body
from stampede_guard.http.marks import ENOUGH
from stampede_guard.http.request import CacheRequest
from stampede_guard.http.spec.fields import first, without
from stampede_guard.http.spec.message import Fields, Response
from stampede_guard.http.spec.ranges import content_range
from stampede_guard.http.spec.reuse import may_serve_on_error
from stampede_guard.http.spec.updating import freshened, head_verdict
from stampede_guard.http.spec.validation import conditions_for, same_representation, unconditional
from stampede_guard.http.stored import AGAIN, REFUSED, Refused, StoredResponse
from stampede_guard.oldvalue import previous

if TYPE_CHECKING:
    from stampede_guard.http.cache import Cache

__all__ = ["SERVER_ERRORS", "Fetch", "OriginFailed"]

SERVER_ERRORS = frozenset({500, 502, 503, 504})
"""RFC 5861, 4: instead of these, and of none at all, a stale response may be served."""


_ABOUT_THE_CLIENT = frozenset({"authorization", "credentials"})
"""Refused because of who asked: another's answer may well be stored."""
_ABOUT_THE_QUESTION = frozenset({206, 412, 416, 417})
"""Or because of how he asked."""


class OriginFailed(StampedeError):
    """The application failed, and what is stored may be served stale instead (RFC 5861, 4)."""


class Fetch:
    """`live` brings the exchange that this request may read as it comes: its own, or one that it waited for.

    `value` is what the flight got of this request's own exchange. `failed` is an exchange of its own that brought an
    error where others are served what is stored. `outdated`: a HEAD found that what is stored has changed, and nobody
    waits who would ask for what is there now.
    """

    def __init__(self, cache: Cache, request: CacheRequest, name: str, *, background: bool = False) -> None:
        self.request = request
        self.live: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()
        self.value: StoredResponse | None = None
        self.failed: Exchange | None = None
        self.refusal: str | None = None
        self.status = 0
        self.gone = background
        self.collapsed = False
        self._in_background = background
        self._begun = False
        self._personal = False
        self.outdated = False
        self._stands_in = False
        self._cache = cache
        self._name = name

    def leave(self) -> None:
        """The request has ended. What of it goes on goes on for others."""
        self.gone = True
        exchange = self.live.result() if self.live.done() and not self.live.cancelled() else self.failed
        if exchange is not None and exchange.live and not self.collapsed and not exchange.complete:
            exchange.cancel()

    # --- the computation of a flight -----------------------------------------------------------

    async def run(self) -> StoredResponse | Refused:
        """For the engine, which publishes what this returns. Nothing comes of a fallback that helps nobody else: what
        it published, with a token above that of the one who is slow, would keep his value out of the store."""
        brought = await self._for_all()
        if self._is_fallback and (
            brought is AGAIN or (isinstance(brought, StoredResponse) and brought.again)
        ):
            raise OriginFailed("its answer is for nobody else")
        return brought

    @property
    def _is_fallback(self) -> bool:
        flight = CURRENT.get()
        if flight is None:
            return False
        return not flight.computing or (flight.leader is not None and flight.leader.run != self.run)

    async def _for_all(self) -> StoredResponse | Refused:
        """1. One with credentials is first at an expiry; a thousand without wait for him. 2. His answer may not be
        stored. 3. Let through, all of them would ask the application. So the next one asks for the others first.

        The same of a HEAD, and of a condition or a range that only its own client can have an answer to.
        """
        if self._stands_in and self.refusal is not None:
            # It has its answer, which is not for the others either. Now the engine would let it ask for itself.
            return REFUSED
        if not self.collapsed:
            self._begun = True
            brought = await self._asked()
            if not self._personal:
                return brought
        other = self._next()
        if other is None:
            return await self._again()
        other._stands_in = True
        outdated, self.outdated = self.outdated, False
        brought = await other._for_all()
        if outdated and isinstance(brought, Refused):
            await self._cache.invalidate_key(self._name)
        return brought

    def _next(self) -> Fetch | None:
        """One that waits and has a question that others have, too. An answer to somebody may be for nobody else."""
        settings = self._cache.settings
        waiting = [
            other
            for other in self._cache.waiting_for(self._name, but=self)
            if other.request.plain and not (other.gone or other.live.done() or other._begun)
        ]
        unknown = [other for other in waiting if not names_somebody(other.request, settings)]
        if self.refusal in _ABOUT_THE_CLIENT or unknown:
            waiting = unknown
        return waiting[0] if waiting else None

    async def _again(self) -> StoredResponse | Refused:
        """For those who wait in other processes: one of them asks next. What is stored stays as it is.

        1. A stale answer is served to one with a cookie, and renewed with his request. 2. What he is answered is his
        alone. 3. Published as not storable, that would keep the others from renewing it, and let all of them through
        when its stale time is over. But those who are like him are not to ask at each of their hits, either.
        """
        old, known = _stored_before(), previous()
        if self.outdated:
            # The fence keeps what follows from being taken for what is true of every answer.
            await self._cache.invalidate_key(self._name)
            return REFUSED
        if old is None or known is None:
            return AGAIN
        if self._in_background:
            self._cache.in_vain.note(self._name, count=ENOUGH)
        return msgspec.structs.replace(old, age=old.age + known.age, again=True)

    async def _asked(self) -> StoredResponse | Refused:
        old = _stored_before()
        if old is not None and not old.is_for(self.request.fields):
            old = None
        readers = self._cache.waiting_for(self._name, but=self)
        exchange: Exchange | None = None
        try:
            for fields, ours in self._tries(old):
                if exchange is not None:
                    exchange.cancel()
                requested_at = self._cache.now()
                exchange = self._begin(fields, ours)
                brought = await self._brought(exchange, old, requested_at, readers)
                if brought is not None:
                    return brought
            assert exchange is not None
            # A 304 or a 206 that nobody asked for: it is handed on, as without a cache.
            return self._refuse(exchange, "status")
        except asyncio.CancelledError:
            if exchange is not None:
                exchange.cancel()
            raise

    def _tries(self, old: StoredResponse | None) -> list[tuple[Fields, Fields]]:
        """What to ask, as fields and those of them that are ours; and what to ask if that was of no use."""
        request = self.request
        whole = (request.without_range(), ())
        if request.method == "HEAD":
            return [(unconditional(request.without_range()), ())]
        if request.method == "POST":
            # Once: asked again, it might do again what it should not do.
            return [(request.without_range(), ())]
        if old is None:
            mine = request.fields
            if request.wanted is None or first(mine, b"if-range") is not None:
                mine = without(mine, (b"range", b"if-range"))
            return [(mine, ()), whole]
        ours = conditions_for(old.fields)
        if not old.part:
            return [((*whole[0], *ours), ours), whole]
        if request.wanted is not None:
            asked = tuple(pair for pair in request.fields if pair[0] == b"range")
            if covers(old, request):
                return [((*whole[0], *asked, *ours), ours), whole]
            return [((*whole[0], *asked), ()), whole]
        if old.part[0] == 0:
            rest: Fields = ((b"range", b"bytes=%d-" % len(old.body)),)
            tag = first(old.fields, b"etag")
            if tag is not None and not tag.startswith(b"W/"):
                rest = (*rest, (b"if-range", tag))
            return [((*whole[0], *rest), rest), whole]
        return [whole]

    def _begin(self, fields: Fields, ours: Fields) -> Exchange:
        context = self.request.context.copy()
        # A computation that waits for itself is found out, also across the application.
        context.run(CURRENT.set, CURRENT.get())
        scope = self.request.forwarded(fields, method=self.request.method)
        return self._cache.begin(scope, context, ours=ours, body=self.request.body or b"")

    async def _brought(
        self, exchange: Exchange, old: StoredResponse | None, requested_at: float, readers: list[Fetch]
    ) -> StoredResponse | Refused | None:
        """None = that was of no use: ask for the whole."""
        head = await exchange.head()
        self.status = 0 if head is None else head.status
        if head is None:
            return self._failure(exchange, old, "no answer")
        if head.status in SERVER_ERRORS and old is not None and self._may_be_stale(old):
            return self._failure(exchange, old, "status")
        if self.request.method == "HEAD":
            return self._learned(exchange, head, old, requested_at)
        if head.status == 304:
            return self._unchanged(exchange, head, old, requested_at)
        if head.status == 206 and any(name == b"range" for name, _ in exchange.ours):
            return await self._completed(exchange, head, old, requested_at)
        draft = self._judge(head, requested_at, nonce=_nonce(old))
        if isinstance(draft, str):
            personal = head.status in _ABOUT_THE_QUESTION or self._is_about_the_client(draft)
            return self._refuse(exchange, draft, personal=personal)
        if exchange.length is not None and exchange.length > self._cache.settings.max_body_bytes:
            return self._refuse(exchange, "too large")
        self._offer(exchange, draft, readers)
        body = await exchange.whole()
        if body is None:
            if exchange.too_large:
                return self._refuse(exchange, "too large")
            return self._failure(exchange, old, "broken off")
        self.value = with_body(draft, body, add_etag=self._cache.settings.add_etag)
        return self.value

    def _judge(self, head: Response, requested_at: float, *, nonce: str) -> StoredResponse | str:
        cache = self._cache
        return judge(
            self.request,
            head,
            cache.settings,
            requested_at=requested_at,
            received_at=cache.now(),
            nonce=nonce,
        )

    def _offer(self, exchange: Exchange, draft: StoredResponse, readers: list[Fetch]) -> None:
        """To read it as it comes: to this request; and, where its size is known, to those that came before it began.

        1. A request joins after the exchange began. 2. In between an entry was invalidated. It must not be served what
        may be older, so it waits for the store's word.
        """
        if not self.live.done():
            self.live.set_result(exchange)
        if exchange.length is None or not draft.may_be_shared(draft.age):
            return
        for reader in readers:
            if reader.request.plain and not reader.live.done() and draft.is_for(reader.request.fields):
                exchange.shared = reader.collapsed = True
                reader.live.set_result(exchange)

    def _is_about_the_client(self, why: str) -> bool:
        """In the background something is stored already, for all: what one who is known is told is about him."""
        known = self._in_background and names_somebody(self.request, self._cache.settings)
        return known or why in _ABOUT_THE_CLIENT

    def _refuse(self, exchange: Exchange, why: str, *, personal: bool = False) -> Refused:
        self.refusal = why
        # An error is handed on when the flight is over, since there may be something stale in its place.
        self._personal = personal and self.status not in SERVER_ERRORS
        exchange.go_live()
        if not self.live.done():
            self.live.set_result(exchange)
        if self.gone or self.live.result() is not exchange:
            exchange.cancel()
        if not personal and self.request.method != "HEAD":
            self._cache.marks.note(self._name)
        return REFUSED

    def _failure(self, exchange: Exchange, old: StoredResponse | None, why: str) -> Refused:
        if old is None or not self._may_be_stale(old):
            return self._refuse(exchange, why)
        self.failed = exchange
        exchange.go_live()
        if self.gone:
            exchange.cancel()
        # Shared, and for a moment remembered: a failing application is not asked by everybody in turn.
        raise OriginFailed(why)

    def _may_be_stale(self, old: StoredResponse) -> bool:
        known = previous()
        situation = old.situation(old.age + (known.age if known is not None else 0.0))
        default = self._cache.settings.stale_if_error
        return not situation.always_validated and may_serve_on_error(
            situation, self.request.fields, default=default
        )

    def _unchanged(
        self, exchange: Exchange, head: Response, old: StoredResponse | None, requested_at: float
    ) -> StoredResponse | Refused | None:
        if not exchange.ours:
            # The client's own condition held, and nothing is stored. If the whole may be stored, everybody else gains
            # by asking for it once.
            draft = self._judge(Response(200, head.fields), requested_at, nonce="")
            shareable = isinstance(draft, StoredResponse) and draft.may_be_shared(draft.age)
            return None if shareable else self._refuse(exchange, "status", personal=True)
        if old is None or same_representation(old.fields, head.fields) == "other":
            return None
        self.value = self._updated(old, head, requested_at)
        return self.value

    def _updated(self, old: StoredResponse, head: Response, requested_at: float) -> StoredResponse:
        """RFC 9111, 4.3.4: with the fields of the answer; and as old as the answer."""
        cache = self._cache
        new = freshened(old.response, head)
        draft = judge(
            self.request,
            new,
            cache.settings,
            requested_at=requested_at,
            received_at=cache.now(),
            dated=head.fields,
            nonce=old.nonce,
        )
        if isinstance(draft, str):
            # Good for those who asked, and for nobody after them; or for the one who asked.
            self._personal = self._is_about_the_client(draft)
            self.refusal = draft if self._personal else None
            fields = without(new.fields, (b"age",))
            return msgspec.structs.replace(
                old, fields=fields, age=0.0, lifetime=0.0, unstorable=True, again=False
            )
        return msgspec.structs.replace(draft, body=old.body, part=old.part)

    async def _completed(
        self, exchange: Exchange, head: Response, old: StoredResponse | None, requested_at: float
    ) -> StoredResponse | Refused | None:
        """RFC 9111, 3.4: a stored beginning and the rest, if a strong validator says that they are of one body."""
        held, tag = content_range(head), first(head.fields, b"etag")
        if old is None or held is None or tag is None or tag.startswith(b"W/"):
            return None
        if held.first != len(old.body) or held.last + 1 != held.length or tag != first(old.fields, b"etag"):
            return None
        whole = Response(
            200, without(freshened(old.response, head).fields, (b"content-range", b"content-length"))
        )
        draft = self._judge(whole, requested_at, nonce=old.nonce)
        if isinstance(draft, str):
            return None
        rest = await exchange.whole()
        if rest is None or len(rest) != held.last + 1 - held.first:
            return None
        self.value = with_body(draft, old.body + rest, add_etag=False)
        return self.value

    def _learned(
        self, exchange: Exchange, head: Response, old: StoredResponse | None, requested_at: float
    ) -> StoredResponse | Refused:
        """RFC 9111, 4.3.5."""
        if old is not None and not old.part:
            verdict = head_verdict(old.response, head)
            if verdict == "update":
                self.value = self._updated(old, head, requested_at)
                if not self.live.done():
                    exchange.go_live()
                    self.live.set_result(exchange)
                return self.value
            self.outdated = verdict == "outdated"
        return self._refuse(exchange, "method", personal=True)


def _stored_before() -> StoredResponse | None:
    known = previous()
    return known.value if known is not None and isinstance(known.value, StoredResponse) else None


def _nonce(old: StoredResponse | None) -> str:
    """What replaces a response that was there when this computation was allowed to begin goes on with its variants."""
    return old.nonce if old is not None else ""
