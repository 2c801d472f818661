"""One GET or HEAD, from its key to its response.

fresh   serve the stored response at once
stale   the same if the response or the client allows it, with a refresh in the background
miss    join this process's flight. The request whose call it is reads the response as it comes. The others are answered
        from the stored response or, if it may not be stored, each by its own call
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from typing import Any
from urllib.parse import unquote

from stampede_guard.engine.tasks import done_within, retrieve
from stampede_guard.errors import ComputeFailed, ComputeTimeout, WaitTimeout
from stampede_guard.http.answer import answer, covers, marked, reply, send_response
from stampede_guard.http.asking import AROUND
from stampede_guard.http.beside import learn
from stampede_guard.http.cache import Cache
from stampede_guard.http.direct import direct
from stampede_guard.http.fetch import Fetch
from stampede_guard.http.judging import SERVER_ERRORS, replaces_errors
from stampede_guard.http.large.bodies import BodySource
from stampede_guard.http.large.serving import answer_in_pieces, serve_in_pieces
from stampede_guard.http.refusals import OriginFailed
from stampede_guard.http.requests.exchange import BrokenOff, Exchange, Send
from stampede_guard.http.requests.incoming import Incoming
from stampede_guard.http.requests.request import CacheRequest
from stampede_guard.http.requests.stored import Lookup, Refusal, StoredResponse
from stampede_guard.http.spec.fields import without_hops
from stampede_guard.http.spec.message import Fields
from stampede_guard.http.spec.reuse import Verdict, request_directives, verdict
from stampede_guard.http.spec.status import CacheStatus, Forwarded
from stampede_guard.http.streaming import hand_on, read_along, send_own

__all__ = ["Visit"]

SETTLING_SECONDS = 0.5
ROUNDS = 3
"""Flights that may return responses for other requests (another variant or range) before a request asks by itself."""
_FOR_WANT_OF_A_ROUTE = frozenset({None, "uncacheable", "nothing to go by", "credentials", "authorization"})


class Visit:
    def __init__(self, cache: Cache, request: CacheRequest, app: Any, incoming: Incoming, send: Send) -> None:
        self._cache = cache
        self._request = request
        self._app = app
        self._incoming = incoming
        self._send = send
        self._let_through = False
        self._bypassed = False
        self._is_broken = False

    async def answer(self, *, bypassed: bool) -> None:
        cache, request = self._cache, self._request
        self._bypassed = bypassed
        if AROUND.get() is not None and cache.is_inside(request):
            status = CacheStatus(forwarded="bypass", detail="inside")
            return await direct(self._app, request, self._incoming.begin(), self._send, status, cache)
        why: Forwarded = "uri-miss"
        detail: str | None = None
        for number in range(ROUNDS):
            if bypassed:
                found = Lookup(cache.key_of(request))
            else:
                known = cache.near(request) if cache.plan.l1 and not number else None
                known = known or (cache.joined(request) if not number else None)
                found = known or await cache.look_up(request)
            stored = found.stored
            if stored is not None and stored.guessed and not request.may_have(stored):
                why, detail = "bypass", "nothing to go by"
                break
            if await self._from_store(found):
                return
            why, detail = self._why(found), None
            if request.method == "HEAD" and found.stored is None:
                break
            if found.crowded:
                detail = "variants"
                break
            alike = found.refused and request.requester.identity in found.refused
            if alike or cache.marks.passes(found.key, lambda: request.requester):
                detail = "uncacheable"
                break
            if await self._from_flight(cache.noted(found), why, bypassed=bypassed):
                return
            if self._let_through:
                detail = "uncacheable"
                break
        why, detail = self._forwarded(why, detail)
        status = CacheStatus(forwarded=why, detail=detail)
        seen = None
        if detail == "uncacheable" and not bypassed:

            def seen(code: int, fields: Fields) -> None:
                learn(cache, request, code, fields, stored=why not in ("uri-miss", "bypass"))

        await direct(self._app, request, self._incoming.begin(), self._send, status, cache, seen=seen)

    def _why(self, found: Lookup) -> Forwarded:
        if self._bypassed:
            return "bypass"
        if found.replaces:
            return "stale"
        if found.stored is None:
            return "vary-miss" if found.varies else "uri-miss"
        if self._is_broken or not covers(found.stored, self._request):
            return "partial"
        return "request" if found.stored.situation(found.age).is_fresh else "stale"

    def _forwarded(self, why: Forwarded, refusal: str | None) -> tuple[Forwarded, str | None]:
        """RFC 9211, 2.2: `bypass` if this cache does not handle such a request. It is not a `uri-miss`, because a
        response for that URI may exist. But if the response's own fields forbid storing, their reason is reported.
        """
        passed = self._request.passed
        if passed is not None and why == "uri-miss" and refusal in _FOR_WANT_OF_A_ROUTE:
            return "bypass", passed
        return why, refusal

    # --- the stored response -------------------------------------------------------------------
    async def _from_store(self, found: Lookup) -> bool:
        stored = found.stored
        if stored is not None and self._request.asked is None and stored.serves_all(found.age):
            # The usual verdict, without a check of everything else.
            decision: Verdict = "fresh"
        else:
            situation = stored.situation(found.age) if stored is not None else None
            decision = verdict(situation, self._request.asking)
        if decision == "gateway-timeout":
            await self._only_if_cached()
            return True
        if stored is None or decision == "validate":
            return False
        if stored.part and not covers(stored, self._request):
            if b"only-if-cached" not in request_directives(self._request.asking):
                return False
            await self._only_if_cached()
            return True
        if decision == "stale-while-revalidate":
            self._cache.refresh(found, self._request)
        if self._cache.uncacheable.ripening_until:
            self._cache.uncacheable.hit(unquote(self._request.target.path))
        self._cache.tell(found, fresh=decision == "fresh")
        status = self._hit(found, stored, found.age)
        if stored.pieces is not None:
            return await self._in_pieces(found.key, stored, found.age, status)
        await self._serve(stored, found.age, status)
        return True

    async def _only_if_cached(self) -> None:
        """RFC 9111, 5.2.1.7."""
        status, head = CacheStatus(detail="only-if-cached"), self._request.method == "HEAD"
        text = "Nothing is stored for this request."
        await reply(self._send, 504, text, status, self._cache.settings, head=head)

    def _hit(
        self, found: Lookup, stored: StoredResponse, age: float, detail: str | None = None
    ) -> CacheStatus:
        key = found.key if self._cache.settings.expose_key else None
        return CacheStatus(hit=True, ttl=math.floor(stored.lifetime - age), key=key, detail=detail)

    def _stores(self, found: Lookup) -> bool:
        """Whether its flight's response reaches the store."""
        return not self._bypassed and not self._cache.is_away(found.key)

    def _exposed(self, found: Lookup) -> str | None:
        return found.key if self._cache.settings.expose_key else None

    def _serve(self, stored: StoredResponse, age: float, status: CacheStatus) -> Awaitable[None]:
        response = answer(stored, self._request, age=age, now=self._cache.now())
        head = self._request.method == "HEAD"
        return send_response(self._send, response, status, self._cache.settings, head=head)

    async def _in_pieces(
        self, key: str, stored: StoredResponse, age: float, status: CacheStatus, own: BodySource | None = None
    ) -> bool:
        """Whether the request was answered. Otherwise a flight must replace the response."""
        told = answer_in_pieces(stored, self._request, age=age, now=self._cache.now())
        receive = self._incoming.messages() if own is None else None
        large, settings = self._cache.large, self._cache.settings
        answered = await serve_in_pieces(large, key, told, status, settings, receive, self._send, own)
        self._is_broken = not answered
        return answered

    # --- a flight ------------------------------------------------------------------------------

    async def _from_flight(self, found: Lookup, why: Forwarded, *, bypassed: bool) -> bool:
        """Whether the request was answered."""
        cache = self._cache
        fetch = Fetch(
            cache, self._request, found.key, incoming=self._incoming, send=self._send, bypassed=bypassed
        )
        cache.wait(found.key, fetch)
        flight = asyncio.ensure_future(cache.fly(found, fetch, bypassed=bypassed))
        flight.add_done_callback(retrieve)
        try:
            await done_within(None, flight, fetch.live)
            if fetch.live.done():
                exchange = fetch.live.result()
                if not await self._waits_for_the_whole(exchange, found, flight):
                    await self._stream(found, fetch, exchange, flight, why)
                    return True
            await done_within(None, flight)
            return await self._landed(found, fetch, flight, why)
        except asyncio.CancelledError:
            await fetch.leave_cancelled()
            raise
        finally:
            cache.stop_waiting(found.key, fetch)
            fetch.leave()
            if not flight.done():
                flight.cancel()

    async def _waits_for_the_whole(
        self, exchange: Exchange, found: Lookup, flight: asyncio.Future[Any]
    ) -> bool:
        """A condition or a range is answered from the stored response. A response that is not stored goes to its
        client. A stale one may replace an error.
        """
        if exchange.live and exchange.status in SERVER_ERRORS:
            found = self._cache.aged(found)
            return found.stored is not None and self._serves_stale(found, found.stored)
        if self._request.plain or self._request.method == "HEAD":
            return False
        decided = asyncio.ensure_future(exchange.decided())
        try:
            await asyncio.wait({flight, decided}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            decided.cancel()
        return not exchange.live

    async def _landed(self, found: Lookup, fetch: Fetch, flight: asyncio.Future[Any], why: Forwarded) -> bool:
        own = fetch.value
        if own is not None and own.unstorable:
            return await self._served_own(found, fetch, own, why)
        try:
            value = flight.result()
        except (OriginFailed, ComputeFailed) as error:
            return await self._instead_of_error(found, fetch, flight, why, error)
        except ComputeTimeout:
            return await self._overdue(504, "The application did not answer in time.", found, why)
        except WaitTimeout as error:
            retry = (b"retry-after", b"%d" % max(1, math.ceil(error.retry_after)))
            return await self._overdue(503, "The answer is being made. Try again.", found, why, retry)
        if own is not None and own == value:
            return await self._served_own(found, fetch, own, why)
        if isinstance(value, Refusal):
            self._let_through = self._request.requester.identity in value.identities
        if not isinstance(value, StoredResponse) or value.again:
            return await self._instead_of_error(found, fetch, flight, why, None)
        return await self._collapsed(found, value, why)

    async def _served_own(self, found: Lookup, fetch: Fetch, own: StoredResponse, why: Forwarded) -> bool:
        stored = not own.unstorable and self._stores(found)
        status = CacheStatus(
            forwarded=why,
            forwarded_status=fetch.status,
            stored=stored,
            ttl=own.left(own.age) if stored else None,
            key=self._exposed(found),
        )
        if own.pieces is not None:
            return await self._in_pieces(found.key, own, own.age, status, fetch.source)
        await self._serve(own, own.age, status)
        return True

    async def _collapsed(self, found: Lookup, value: StoredResponse, why: Forwarded) -> bool:
        """Serves the response of another request's call."""
        cache, request = self._cache, self._request
        if not (value.is_for(request.fields) and covers(value, request) and request.may_have(value)):
            return False
        if not await cache.groups.hold(found.key, value, local=self._bypassed):
            # It was asked for before an invalidation, and this request may have come after it.
            return False
        age = value.age + cache.resident(found.key, value)
        if not value.may_be_shared(age):
            self._let_through = cache.note_useless(found.key, value, request)
            return False
        if why != "request" and verdict(value.situation(age), request.asking) != "fresh":
            return False
        status = CacheStatus(forwarded=why, collapsed=True, key=self._exposed(found))
        if value.pieces is not None:
            return await self._in_pieces(found.key, value, age, status)
        await self._serve(value, age, status)
        return True

    # --- errors --------------------------------------------------------------------------------

    async def _instead_of_error(
        self,
        found: Lookup,
        fetch: Fetch,
        flight: asyncio.Future[Any],
        why: Forwarded,
        error: Exception | None,
    ) -> bool:
        """RFC 5861, 4: the stale response if it may be served; else the application's response; else call the
        application.
        """
        own = fetch.failed or (fetch.live.result() if fetch.live.done() else None)
        found = self._cache.aged(found)
        # A response for one client only is no error: its waiters are not served a stale one.
        failed = error is not None or (own is not None and own.status in (0, *SERVER_ERRORS))
        if failed and await self._stale(found, "stale-if-error", own):
            return True
        if own is None or own.task.cancelled():
            return False
        await self._stream(found, fetch, own, flight, why)
        return True

    async def _stale(self, found: Lookup, why: str, failed: Exchange | None = None) -> bool:
        """Whether the stored response was served in place of an error."""
        key, stored = found.key, found.stored
        if stored is None or not self._serves_stale(found, stored):
            return False
        pieces = stored.pieces
        if pieces is not None and not await self._cache.large.is_there(key, pieces):
            return False
        if failed is not None:
            failed.cancel()
        status = self._hit(found, stored, found.age, why)
        if pieces is not None:
            return await self._in_pieces(key, stored, found.age, status)
        await self._serve(stored, found.age, status)
        return True

    def _serves_stale(self, found: Lookup, stored: StoredResponse) -> bool:
        settings = self._cache.settings
        return covers(stored, self._request) and replaces_errors(stored, found.age, self._request, settings)

    async def _overdue(
        self, code: int, text: str, found: Lookup, why: Forwarded, *extra: tuple[bytes, bytes]
    ) -> bool:
        if found.replaces:
            # It joined the flight without a read of the store.
            found = await self._cache.look_up(self._request)
        found = self._cache.aged(found)
        if not await self._stale(found, "timeout"):
            status = CacheStatus(forwarded=why, detail="timeout")
            head = self._request.method == "HEAD"
            await reply(self._send, code, text, status, self._cache.settings, *extra, head=head)
        return True

    # --- as it comes ---------------------------------------------------------------------------

    async def _stream(
        self, found: Lookup, fetch: Fetch, exchange: Exchange, flight: asyncio.Future[Any], why: Forwarded
    ) -> None:
        """The end of a stored response is sent only after it is stored: so the next request finds it."""
        if not exchange.status:
            # The server, or a middleware around this one, then does the same as without a cache.
            exchange.carry()
            raise exchange.error or AssertionError("an exchange without an answer has an error")
        detail = fetch.refusal
        if not fetch.collapsed and not self._bypassed:
            nothing = found.stored is None and not found.varies
            learn(self._cache, self._request, exchange.status, exchange.fields, stored=not nothing)
        if exchange.live:
            why, detail = self._forwarded(why, detail)
        stored, draft = not exchange.live and self._stores(found), fetch.draft
        status = CacheStatus(
            forwarded=why,
            forwarded_status=exchange.status,
            stored=stored,
            ttl=draft.left(draft.age) if stored and draft is not None else None,
            collapsed=fetch.collapsed,
            key=self._exposed(found),
            detail=detail,
        )

        settings = self._cache.settings

        async def until_stored() -> None:
            if not exchange.live or fetch.value is not None or fetch.outdated:
                await done_within(None, flight)

        try:
            if fetch.collapsed:
                headers = marked(fetch.shared_fields, status, settings)
                await read_along(exchange, headers, self._send, until_stored)
            elif exchange.live and not exchange.is_kept:
                await hand_on(exchange, marked(exchange.fields, status, settings), self._send, until_stored)
                if not fetch.handed_over:
                    # The next request from here finds the outcome of this one.
                    await asyncio.wait({flight}, timeout=SETTLING_SECONDS)
            else:
                # Without fields for one connection (RFC 9111, 3.1).
                headers = marked(without_hops(exchange.fields), status, settings)
                await send_own(exchange, headers, self._send, until_stored)
        except BrokenOff:
            # As without a cache: an application may stop in mid-body when its client has gone, without an error.
            if fetch.collapsed or not exchange.told_of_leaving:
                raise
        finally:
            if not fetch.collapsed:
                exchange.carry()
