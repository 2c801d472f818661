"""One request's part in a flight: how it asks the application, and which part of the response is for all."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING

import msgspec

from stampede_guard.engine.engine import is_beside
from stampede_guard.engine.previous import previous
from stampede_guard.http.answer import covers
from stampede_guard.http.asking import Try, begin, nonce_of, stored_before, tries
from stampede_guard.http.groups import VersionsBefore
from stampede_guard.http.judging import (
    SERVER_ERRORS,
    arrived,
    judge,
    replaces_errors,
    requester_of,
    served_stale_for,
    with_body,
)
from stampede_guard.http.parts.assembling import assembled
from stampede_guard.http.refusals import ABOUT_THE_QUESTION, ELSEWHERE, OriginFailed, Refusals
from stampede_guard.http.renewing.renewal import completed, learned, unchanged
from stampede_guard.http.requests.exchange import Exchange, Send
from stampede_guard.http.requests.incoming import Incoming
from stampede_guard.http.requests.request import CacheRequest
from stampede_guard.http.requests.requester import Requester
from stampede_guard.http.requests.stored import AGAIN, ONCE, REFUSED, TWICE, Refusal, StoredResponse, is_once
from stampede_guard.http.spec.fields import has
from stampede_guard.http.spec.message import Fields, Response
from stampede_guard.http.spec.storing import is_about_one_request
from stampede_guard.http.streaming import let_read
from stampede_guard.http.uncacheable.marks import ENOUGH
from stampede_guard.http.users.outside import session_of

if TYPE_CHECKING:
    from stampede_guard.http.cache import Cache
    from stampede_guard.http.large.bodies import BodySource

__all__ = ["Fetch"]

_MOST_OF_THE_TIME = 0.9
"""Of `compute_timeout`: then a body of unknown length is a stream. The engine would end it for its own client, too."""


class Fetch:
    """`live` delivers the exchange that this request may read as it comes: its own, or one that it waited for.

    `value` is what the flight got from this request's own exchange. `draft` is a response to be stored, without its
    body, before it is complete. `failed` is its own exchange that returned an error while others are served the stored
    response. `source` is the one that is stored in pieces. `outdated`: a HEAD found that the stored response has
    changed, and no waiter would ask for the new one. `personal`: what it got is for its own client.
    """

    def __init__(
        self,
        cache: Cache,
        request: CacheRequest,
        name: str,
        *,
        incoming: Incoming | None = None,
        send: Send | None = None,
        bypassed: bool = False,
    ) -> None:
        self.request = request
        self.live: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()
        self.value: StoredResponse | None = None
        self.draft: StoredResponse | None = None
        self.failed: Exchange | None = None
        self.source: BodySource | None = None
        self.refusal: str | None = None
        self.status = 0
        self.gone = incoming is None
        self.collapsed = self.begun = self.handed_over = False
        self.is_evidence = self.is_sure = self.outdated = False
        self.shared_fields: Fields = ()
        self._in_background = incoming is None
        self._incoming, self._send, self._bypassed = incoming, send, bypassed
        self._exchange: Exchange | None = None
        self.personal = self._stands_in = False
        self._before: VersionsBefore | None = None
        self._came, self._ends = 0.0, 0.0
        self._misplaced: StoredResponse | None = None
        self._session = session_of(request.scope) if "session" in request.scope else None
        self._cache, self._name = cache, name

    @functools.cached_property
    def requester(self) -> Requester:
        return requester_of(self.request, self._cache.settings)

    def leave(self) -> None:
        """The request has ended. Its tasks continue for others."""
        self.gone = True
        if self.source is not None:
            self.source.own.leave()
        if (own := self._exchange) is not None:
            own.served = True
            if own.holds_file or own.spool is not None:
                own.let_go()
        exchange = self.live.result() if self.live.done() and not self.live.cancelled() else self.failed
        if exchange is not None and exchange.live and not self.collapsed and not exchange.complete:
            exchange.cancel()

    async def leave_cancelled(self) -> None:
        """The request was cancelled. As without a cache, its call of the application is cancelled, too, before its
        resources are taken away; but not if others wait for the response.
        """
        self.leave()
        exchange = self._exchange
        if exchange and not exchange.task.done() and (exchange.live or not self._is_for_others()):
            await exchange.unwind()

    def stay_alone(self) -> None:
        """No other request waits any more."""
        if self._exchange is not None:
            self._exchange.count_others()

    def _is_for_others(self) -> bool:
        others, own = self._cache.waiting_for(self._name, but=self), self._exchange
        return (own is not None and own.shared) or not all(other.gone for other in others)

    # --- the computation of a flight -----------------------------------------------------------

    async def run(self) -> StoredResponse | Refusal:
        """Called by the engine, which publishes the result. A fallback that helps no other request returns nothing:
        its publication, with a token above the slow holder's, would keep the holder's value out of the store.
        """
        seconds = self._cache.plan.policy.compute_timeout * _MOST_OF_THE_TIME
        self._ends = asyncio.get_running_loop().time() + seconds
        brought = await self._for_all(Refusals())
        for_another = brought.again if isinstance(brought, StoredResponse) else brought.is_for_another_to_ask
        if is_beside(self.run) and for_another:
            raise OriginFailed("its answer is for nobody else")
        return brought

    async def _for_all(self, refusals: Refusals) -> StoredResponse | Refusal:
        """See `refusals`. It also holds for a HEAD, for a condition or range of one client, and if its client left."""
        if self._stands_in and self.refusal is not None:
            # It has a response that is not for the others. Otherwise the engine would let it ask for itself.
            return REFUSED
        if not self.collapsed and not (self.gone and not self._in_background):
            self.begun = True
            brought = await self._asked()
            if not self.personal:
                return brought
            refusals.add(self)
            if refusals.are_for_all:
                self._cache.marks.note_all(self._name)
                return REFUSED
        other = refusals.next_to_ask(self._cache.waiting_for(self._name, but=self))
        if other is None:
            return await self._again(refusals)
        other._stands_in = self.handed_over = True
        other._ends = self._ends
        outdated, self.outdated = self.outdated, False
        brought = await other._for_all(refusals)
        if outdated and isinstance(brought, Refusal):
            await self._cache.invalidate_key(self._name)
        return brought

    async def _again(self, refusals: Refusals) -> StoredResponse | Refusal:
        """For waiters in other processes: one of them asks next. The stored response stays.

        1. A stale response is served to a request with a cookie, and refreshed with that request. 2. The answer
           belongs to that request's client alone. 3. Published as not storable, it would keep others from
           refreshing, and release all of them at once when its stale time ends. But requests like it must not ask
           at each hit either.
        """
        old, known = stored_before(), previous()
        if old is not None and not await self._cache.groups.hold(self._name, old, local=self._bypassed):
            old = None
        if self.outdated:
            # The fence prevents what follows from counting as true of every response.
            await self._cache.invalidate_key(self._name)
            return REFUSED
        if old is None or known is None:
            once = refusals.ordinary and not is_about_one_request(self.status)
            mark = (TWICE if refusals.are_sure else ONCE) if once else AGAIN
            return Refusal(mark.mark, frozenset(refusals.identities))
        if self._in_background and not self.failed and not (self.is_evidence and self.requester.ordinary):
            self._cache.in_vain.note_all(self._name)
        return msgspec.structs.replace(old, age=old.age + known.age, again=True)

    async def _asked(self) -> StoredResponse | Refusal:
        groups = self._cache.groups
        old = stored_before()
        more = self._cache.searching.tags_before(self.request)
        self._before = await groups.before(self.request, self._name, old, bypassed=self._bypassed, more=more)
        if old is not None and not (
            old.is_for(self.request.fields) and await groups.hold(self._name, old, local=self._bypassed)
        ):
            old = None
        readers = self._cache.waiting_for(self._name, but=self)
        exchange: Exchange | None = None
        try:
            most = self._cache.settings.max_body_bytes
            for asked in tries(self.request, old, in_background=self._in_background, most_bytes=most):
                if exchange is not None:
                    await exchange.unwind()
                requested_at = self._cache.now()
                exchange = self._begin(asked)
                brought = await self._brought(exchange, old, requested_at, readers)
                if brought is not None:
                    return brought
            assert exchange is not None
            # A 304 or a 206 without a request for it: passed on, as without a cache.
            return self.refuse(exchange, "status", personal=True)
        except asyncio.CancelledError:
            if exchange is not None:
                exchange.cancel()
            raise

    def _begin(self, asked: Try) -> Exchange:
        own = {} if self._incoming is None else {"send": self._send, "is_for_others": self._is_for_others}
        self._exchange = begin(self._cache, self.request, self._incoming, asked, **own)
        return self._exchange

    async def _brought(
        self, exchange: Exchange, old: StoredResponse | None, requested_at: float, readers: list[Fetch]
    ) -> StoredResponse | Refusal | None:
        """None = the answer was useless: ask for the whole response."""
        head = await exchange.head()
        self.status, self._came = 0 if head is None else head.status, self._cache.now()
        if head is None:
            return self._failure(exchange, old, "no answer")
        if head.status in SERVER_ERRORS and old is not None and self._may_be_stale(old):
            return self._failure(exchange, old, "status")
        if self.request.method == "HEAD":
            return await learned(self, exchange, head, old, requested_at)
        if has(exchange.ours, b"range") and head.status in (206, 304, 416):
            # The client asked for no range, so a refusal of ours is not for it.
            return await completed(self, exchange, head, old, requested_at)
        if head.status == 304:
            return await unchanged(self, exchange, head, old, requested_at)
        draft = self.judge(head, requested_at, nonce=nonce_of(old))
        if isinstance(draft, str):
            if draft == ELSEWHERE and self._misplaced is not None:
                self.refusal = ELSEWHERE
                self.hand_over(exchange)
                await self._cache.searching.tell(self.request, self._misplaced)
                # Waiters ask the store again, each under the name that is known by now. The stored response stays:
                # one client's error page must not take it away from all equal queries.
                return await self._again(Refusals())
            return self.refuse(exchange, draft, personal=head.status in ABOUT_THE_QUESTION)
        if exchange.start.get("trailers"):
            return self.refuse(exchange, "stream")
        if exchange.length is not None and exchange.length > self._cache.settings.max_body_bytes:
            return await self._in_pieces(exchange, draft)
        self._offer(exchange, draft, readers)
        now = asyncio.get_running_loop().time()
        until = min(now + self._cache.settings.stream_timeout, self._ends)
        if not await exchange.settled(within=until - now if exchange.length is None else None):
            return self.refuse(exchange, "stream", of_all=True)
        if exchange.too_large:
            return await self._spooled(exchange, draft, old, until)
        body = exchange.whole()
        if body is None:
            return self._failure(exchange, old, "broken off")
        value = self._arrived(with_body(draft, body, add_etag=self._cache.settings.add_etag), exchange)
        if value.part:
            # RFC 9111, 3.4. The client still gets what it asked for.
            found = self.assembled(old, head, body, requested_at, draft.asked)
            value = found if found is not None and covers(found, self.request) else value
        return await self.kept(value)

    async def _in_pieces(self, exchange: Exchange, draft: StoredResponse) -> StoredResponse | Refusal:
        if not self._cache.large.takes(self.request, exchange, draft):
            return self.refuse(exchange, "too large", of_all=True)
        draft = self._lasting(draft)
        large = await self._cache.large.begin(self._name, exchange, draft) if self._stores else None
        if large is None:
            return await self._not_now(exchange)
        # It is made for all processes from now on, and does not end with this request.
        self._exchange, self.source = None, large.source
        if self.gone:
            large.source.own.leave()
        return await self.kept(self._arrived(large.response, exchange))

    async def _spooled(
        self, exchange: Exchange, draft: StoredResponse, old: StoredResponse | None, until: float
    ) -> StoredResponse | Refusal:
        large = self._cache.large
        if not large.spools(self._name, self.request, exchange, draft):
            return self.refuse(exchange, "too large", of_all=True)
        within = until - asyncio.get_running_loop().time()
        found: StoredResponse | str = "store"
        if self._stores:
            draft = self._lasting(draft)
            found = await large.spool(self._name, exchange, draft, within=within, has_client=not self.gone)
        if not isinstance(found, str):
            return await self.kept(self._arrived(found, exchange))
        if found == "store":
            return await self._not_now(exchange)
        if found == "broken off":
            return self._failure(exchange, old, found)
        return self.refuse(exchange, found, of_all=True)

    def _arrived(self, draft: StoredResponse, exchange: Exchange) -> StoredResponse:
        head, cache = Response(exchange.status, exchange.fields), self._cache
        return arrived(draft, self.request, head, cache.settings, seconds=cache.now() - self._came)

    def _lasting(self, draft: StoredResponse) -> StoredResponse:
        """A body in pieces is never validated, so it is not kept for that."""
        return msgspec.structs.replace(draft, keep=served_stale_for(draft, self._cache.settings))

    @property
    def _stores(self) -> bool:
        return not (self._bypassed or is_beside(self.run))

    async def _not_now(self, exchange: Exchange) -> StoredResponse | Refusal:
        """The present waiters like it ask for themselves. Nothing is remembered: the next one may be stored."""
        self.refuse(exchange, "store", personal=True)
        self.personal = False
        return await self._again(Refusals(self.requester.identity))

    async def kept(self, value: StoredResponse) -> StoredResponse:
        assert self._before is not None
        self.value = await self._cache.groups.marked(self._name, value, self._before)
        if value.search:
            await self._cache.searching.tell(self.request, value)
        return self.value

    def judge(
        self, head: Response, requested_at: float, *, nonce: str, dated: Fields | None = None
    ) -> StoredResponse | str:
        now, settings = self._cache.now(), self._cache.settings
        judged = functools.partial(judge, dated=dated, nonce=nonce, session=self._session)
        draft = judged(self.request, head, settings, requested_at=requested_at, received_at=now)
        if isinstance(draft, str):
            return draft
        if not self._cache.searching.accepts(self.request, self._name, draft, self._before):
            self._misplaced = draft
            return ELSEWHERE
        if not draft.may_be_shared(draft.age):
            return msgspec.structs.replace(draft, made_by=self.requester.written())
        return draft

    def _offer(self, exchange: Exchange, draft: StoredResponse, readers: list[Fetch]) -> None:
        """Lets it be read as it comes: by this request, and by those that came before it began."""
        exchange.keep()
        self.draft = draft
        if not self.live.done():
            self.live.set_result(exchange)
        let_read(exchange, draft, readers)

    def refuse(
        self, exchange: Exchange, why: str, *, personal: bool = False, of_all: bool = False
    ) -> Refusal:
        """`personal`: it says nothing about responses to others. `of_all`: one such response holds for all."""
        self.refusal = why
        self.personal = True
        # An application may end because its client has left.
        self.is_evidence = not (personal or self.request.method == "HEAD" or (exchange.error and self.gone))
        counts = of_all or not self.requester.ordinary or not is_about_one_request(self.status)
        if self.is_evidence and counts:
            self._cache.marks.note(self._name, self.requester, count=ENOUGH if of_all else 1)
            known, own = previous(), self.requester.identity
            before = known.value.identities if known is not None and is_once(known.value) else frozenset()
            self.is_sure = of_all or own in before
            another = self.requester.ordinary and bool(before) and own not in before
            self.personal = not (another or self._cache.marks.passes(self._name))
        self.hand_over(exchange)
        return REFUSED

    def hand_over(self, exchange: Exchange) -> None:
        exchange.go_live()
        if not self.live.done():
            self.live.set_result(exchange)
        if self.gone or self.live.result() is not exchange:
            exchange.cancel()

    def _failure(self, exchange: Exchange, old: StoredResponse | None, why: str) -> Refusal:
        if old is None or not self._may_be_stale(old):
            return self.refuse(exchange, why)
        self.failed = exchange
        exchange.go_live()
        if self.gone:
            exchange.cancel()
        if self.requester.ordinary:
            # Shared, and remembered for a moment: requests do not call a failing application one after the other.
            raise OriginFailed(why)
        # Its own fields may be the reason. So others ask for themselves, and those like it do not for a moment.
        self.refusal, self.personal, self.is_evidence = why, True, True
        self._cache.failing.note(self._name, self.requester)
        return REFUSED

    def _may_be_stale(self, old: StoredResponse) -> bool:
        age = old.age + (0.0 if (known := previous()) is None else known.age)
        return replaces_errors(old, age, self.request, self._cache.settings)

    def assembled(
        self, old: StoredResponse | None, head: Response, body: bytes, at: float, asked: bytes
    ) -> StoredResponse | None:
        judged = functools.partial(self.judge, requested_at=at, nonce=nonce_of(old), dated=head.fields)
        most, bare = self._cache.settings.max_body_bytes, has(self.request.fields, b"if-range")
        return assembled(old, head, body, judged, asked=asked, may_lack_fields=bare, most_bytes=most)
