"""What all requests of one middleware share: the guard's engine as HTTP uses it, and the running exchanges."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from msgspec.structs import replace

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.core.entry import Reading
from stampede_guard.engine.engine import CURRENT, NOTHING, PutGrant, bypassed_name
from stampede_guard.engine.plan import Plan
from stampede_guard.errors import StoreError, StoreRefused, Undecodable
from stampede_guard.events import Hit, Source, Stale
from stampede_guard.http.asking import AROUND
from stampede_guard.http.fetch import Fetch
from stampede_guard.http.groups import Groups
from stampede_guard.http.judging import is_anybodys, lifetimes, requester_of
from stampede_guard.http.large.bodies import LargeBodies
from stampede_guard.http.refusals import FAILED_SECONDS, fail
from stampede_guard.http.requests.addresses import prefix_of
from stampede_guard.http.requests.choosing import RouteChoice, Routing
from stampede_guard.http.requests.entries import Target, base_name, variant_name
from stampede_guard.http.requests.exchange import App, Exchange, Receive, as_fields
from stampede_guard.http.requests.origin import tags_of_urls
from stampede_guard.http.requests.request import CacheRequest
from stampede_guard.http.requests.requester import Requester
from stampede_guard.http.requests.routes import Scope
from stampede_guard.http.requests.settings import Settings
from stampede_guard.http.requests.stored import TWICE, HttpCodec, Lookup, Refusal, StoredResponse, is_once
from stampede_guard.http.requests.usage import Usage, wins
from stampede_guard.http.searching.searching import Searching
from stampede_guard.http.spec.message import Fields
from stampede_guard.http.spec.reuse import verdict
from stampede_guard.http.spec.vary import nominated
from stampede_guard.http.uncacheable.marks import ENOUGH, Marks
from stampede_guard.http.uncacheable.urls import UncacheableUrls
from stampede_guard.policy import Policy

__all__ = ["Cache"]

log = logging.getLogger("stampede_guard")

_HEADERS = 256 * 1024
"""Bytes that the fields of a response may take, in addition to its body."""
_AT_ONCE = 1_000_000
_SHORTEST = 0.001
_Place = tuple[asyncio.AbstractEventLoop, str]


class Cache:
    def __init__(self, app: App, guard: StampedeGuard, settings: Settings) -> None:
        self.settings = settings
        self.guard = guard
        self.engine = guard.engine
        self.judged = guard.engine.judged
        self.routing = Routing(settings)
        self.now: Callable[[], float] = settings.clock
        self.prefix = prefix_of(settings.name)
        policy = guard.policy.replace(
            max_value_bytes=max(guard.policy.inline_bytes, settings.max_body_bytes + _HEADERS),
            # Requests must not wait for a response that is not stored, however many there are.
            uncacheable_limit=_AT_ONCE,
            share=True,
            # HTTP itself decides when a stale response is served, and each request decides for itself.
            soft_timeout=0.0,
            early_beta=0.0,
        )
        self.plan = Plan(title="http", policy=policy, codec=HttpCodec(), share_uncached=False)
        self.plan.policy_for = self._policy_for
        self.marks = Marks(policy.uncacheable_ttl, self.judged.now)
        # Requesters for whom the application has failed, while it may not for others.
        self.failing = Marks(FAILED_SECONDS, self.judged.now)
        # Background refreshes whose response was for one client only.
        self.in_vain = Marks(policy.uncacheable_ttl, self.judged.now)
        # Entries that could be stored again. The store still has the note that requesters like these need not wait.
        self.lifted = Marks(policy.uncacheable_ttl, self.judged.now)
        self.uncacheable = UncacheableUrls(policy.uncacheable_ttl, settings.clock)
        self.usage = Usage()
        self.groups = Groups(self.engine, policy)
        self.searching = Searching(self.engine, self.plan, self.prefix, self.now)
        self._app = app
        # Exchanges, and tasks that continue after their request has ended.
        self._tasks: set[asyncio.Future[Any]] = set()
        self._waiting: defaultdict[_Place, set[Fetch]] = defaultdict(set)
        most = settings.max_pieces_bytes
        self.large = LargeBodies(self.engine, self.plan, most, self.invalidate_key, self._tasks)

    def _policy_for(self, value: Any) -> Any:
        if isinstance(value, Refusal):
            # AGAIN is for the present waiters only, not for later requests.
            if not value.is_for_another_to_ask:
                return None
            seconds = max(_SHORTEST, self.plan.policy.uncacheable_ttl if is_once(value) else 0.0)
            return self.plan.policy.replace(ttl=seconds, stale_ttl=0.0)
        return lifetimes(value, self.plan.policy)

    def is_away(self, key: str) -> bool:
        """Whether nothing is stored under this key at the moment."""
        return self.judged.is_away(self.engine.prefix + key)

    # --- reading -------------------------------------------------------------------------------

    def joined(self, request: CacheRequest) -> Lookup | None:
        """For a request that joins the flight running here without a read of the store. None: it must read.

        The response that the flight replaces only shows that this request could not use it either. It is not
        served: 1. The flight gets it. 2. Another process invalidates it. 3. A request comes.
        """
        if not self.judged.is_computing or not request.plain or request.asked is not None:
            return None
        key = self.key_of(request)
        old = self.judged.replaced(self.engine.prefix + key)
        if old is NOTHING:
            return None
        if old is None:
            return Lookup(key)
        try:
            stored = old.value
        except Undecodable:
            return None
        if not isinstance(stored, StoredResponse) or not stored.is_for(request.fields):
            return None
        situation = stored.situation(stored.age + old.age)
        return Lookup(key, replaces=True) if verdict(situation, request.asking) == "validate" else None

    def near(self, request: CacheRequest) -> Lookup | None:
        """The copy of a response in this process (`l1_ttl`), if it is fresh for this request. Sends no command."""
        if request.asked is not None:
            return None
        key, prefix = self.searching.own_name(request), self.engine.prefix
        kept = self.engine.near.find(prefix + key)
        if kept is not None and kept[0].vary and not kept[0].is_for(request.fields):
            # Reachable by the copy of the base entry only: see `variant_name`.
            wanted = nominated(request.fields, kept[0].vary)
            key = variant_name(key, kept[0].nonce, wanted, variants=self.settings.variants)
            kept = self.engine.near.find(prefix + key)
        if kept is None:
            return None
        stored: StoredResponse = kept[0]
        age = stored.age + kept[1]
        if not stored.serves_all(age) or not stored.is_for(request.fields) or not request.may_have(stored):
            return None
        if stored.vary:
            self.usage.add((key, stored.nominated))
        return None if stored.part else Lookup(key, stored, None, age)

    async def look_up(self, request: CacheRequest, key: str | None = None) -> Lookup:
        """One round trip; two for a variant that is not the one in the base entry. See `Searching.find`, too."""
        if key is None:
            if self.searching.are_used or (request.target.query and self.searching.is_curious):
                return await self.searching.find(request, self.look_up)
            key = self.searching.own_name(request)
        found = await self._found(key)
        base = found.stored
        if base is None or not base.vary or base.is_for(request.fields):
            return found
        wanted = nominated(request.fields, base.vary)
        place = variant_name(key, base.nonce, wanted, variants=self.settings.variants)
        asked = self.usage.add((place, wanted))
        other = await self._found(place)
        if other.stored is not None and not other.stored.is_for(request.fields):
            used = self.usage.count((place, other.stored.nominated))
            # If there is only one place, variants take turns.
            fresh = self.settings.variants > 1 and other.stored.situation(other.age).is_fresh
            other = replace(other, stored=None, crowded=not wins(asked, used, fresh=fresh))
        return replace(other, varies=other.stored is None)

    def key_of(self, request: CacheRequest) -> str:
        return self.searching.name_of(request)

    def is_inside(self, request: CacheRequest) -> bool:
        """Whether this very entry is being computed around this request, by a middleware with the same guard and name:
        one of an application, and one of what is mounted in it. An application that calls itself gets an error.
        """
        flight, around = CURRENT.get(), AROUND.get()
        if flight is None or around is None or around is self:
            return False
        names = {
            self.engine.prefix + name for name in (self.key_of(request), self.searching.own_name(request))
        }
        base = flight.name.partition("#")[0]
        return base in names or flight.name in map(bypassed_name, names)

    async def _found(self, key: str) -> Lookup:
        versions = self.groups.ask(key) if self.groups.are_used else None
        name = self.engine.prefix + key
        asked = self.engine.near.ask(self.plan, name) if self.plan.l1 else None
        reading, stored = await self.judged.read(self.plan, name)
        if reading is None or stored is NOTHING:
            return Lookup(key, reading=reading)
        if isinstance(stored, Refusal):
            remembered = stored.mark == TWICE.mark and not self.lifted.passes(key)
            refused = stored.identities if remembered else frozenset()
            return Lookup(key, reading=reading, refused=refused)
        if stored.tags and not await self.groups.hold(key, stored, versions):
            return Lookup(key, reading=reading)
        if asked is not None and not stored.tags:
            # The versions of tags are compared with the store at each read.
            self.engine.near.keep(self.plan, name, reading, asked)
        age = stored.age + _resident(reading, stored)
        if stored.pieces is not None and age >= stored.lifetime + stored.keep:
            # After a refusal it is stored again, but its pieces are not.
            return Lookup(key, reading=reading)
        return Lookup(key, stored, reading, age)

    def resident(self, key: str, stored: StoredResponse) -> float:
        """Seconds for which a flight's response has been in the store. It is long if the flight found the response
        there:

        1. A read fails. 2. The flight asks once more, and finds a response that was stored half an hour ago.
        """
        reading = self.judged.last_seen(self.engine.prefix + key)
        if reading is None or reading.total_ms - reading.remaining_ms < 1000:
            # The usual case. Ages are whole seconds, so a large response need not be examined.
            return 0.0
        try:
            return _resident(reading, stored) if self.plan.decode(reading.body) == stored else 0.0
        except Undecodable:
            return 0.0

    def note_useless(self, key: str, value: StoredResponse, request: CacheRequest) -> bool:
        """Nobody may use the response without validation. So waiting for it was useless, and will be for requesters
        like its own. Others may get another response. Returns whether this request is like that requester."""
        if not value.made_by:
            self.marks.note_all(key)
            return True
        maker = Requester.read(value.made_by)
        self.marks.note(key, maker, count=ENOUGH)
        return maker.identity == request.requester.identity

    def noted(self, found: Lookup) -> Lookup:
        """The same before a wait: see `aged`. A hit does not wait, so it asks no clock."""
        return found if found.stored is None else replace(found, at=self.judged.now())

    def aged(self, found: Lookup) -> Lookup:
        """The same after a wait."""
        if found.stored is None or found.at is None:
            return found
        now = self.judged.now()
        return replace(found, age=found.age + max(0.0, now - found.at), at=now)

    def tell(self, found: Lookup, *, fresh: bool) -> None:
        hooks = self.engine.hooks
        if hooks.any:
            source: Source = "l1" if found.reading is None else "store"
            hooks.tell((Hit if fresh else Stale)(self.plan.title, self.engine.prefix + found.key, source))

    # --- flights -------------------------------------------------------------------------------

    def fly(self, found: Lookup, fetch: Fetch, *, bypassed: bool) -> Awaitable[Any]:
        if found.stored is not None and self.failing.passes(found.key, lambda: fetch.requester):
            return fail()
        name = self.engine.prefix + found.key
        return self.judged.compute(self.plan, name, fetch.run, found.reading, bypassed=bypassed)

    def refresh(self, found: Lookup, request: CacheRequest) -> None:
        """In the background, once fleet-wide. It has its own request, because the current one will have ended."""
        name, old = self.engine.prefix + found.key, found.reading
        if old is None:
            return
        request = request.for_body()
        if self.in_vain.passes(found.key) and not is_anybodys(request, self.settings):
            return
        told = functools.partial(requester_of, request, self.settings)
        if not self.failing.passes(found.key, told) and not self.marks.passes(found.key, told):
            self.judged.refresh_behind(self.plan, name, lambda: self._refreshing(found.key, request), old)

    def _refreshing(self, key: str, request: CacheRequest) -> Callable[[], Awaitable[Any]]:
        # Its own scope: what the application writes into it is read, too.
        return Fetch(self, replace(request, scope={**request.scope}), key).run

    def begin(self, scope: Scope, context: contextvars.Context, receive: Receive, **options: Any) -> Exchange:
        most = self.settings.max_body_bytes
        exchange = Exchange(self._app, scope, context, receive, max_body_bytes=most, **options)
        self._tasks.add(exchange.task)
        exchange.task.add_done_callback(self._tasks.discard)
        return exchange

    def wait(self, key: str, fetch: Fetch) -> None:
        self._waiting[_place(key)].add(fetch)

    def stop_waiting(self, key: str, fetch: Fetch) -> None:
        waiting = self._waiting[place := _place(key)]
        waiting.discard(fetch)
        if not waiting:
            del self._waiting[place]
        elif len(waiting) == 1:
            next(iter(waiting)).stay_alone()

    def waiting_for(self, key: str, *, but: Fetch | None) -> list[Fetch]:
        return [fetch for fetch in self._waiting.get(_place(key), ()) if fetch is not but]

    # --- invalidation --------------------------------------------------------------------------

    async def invalidate(
        self,
        targets: list[Target],
        scope: Scope | None = None,
        *,
        fields: Fields = (),
        forwarded: Iterable[str] = (),
    ) -> None:
        """The stored responses for these URLs, also those of routes. A route's entries with a `key` have the tag
        of their URL. `forwarded`: what their names may contain of the way on which the request came.
        """
        keys: dict[str, None] = {}
        parts = dict.fromkeys(("", *forwarded))
        for number, target in enumerate(targets):
            for part in parts:
                keys[base_name(self.prefix, target, forwarded=part)] = None
            for route in self.settings.routes:
                if {"GET", "HEAD"}.isdisjoint(route.methods) or not route.matches(
                    target.path.encode("latin-1")
                ):
                    continue
                choice = RouteChoice(route)
                if scope is not None and number == 0:
                    choice = self.routing.by_key(route, scope)
                for part in parts if choice.route is not None else ():
                    keys[base_name(self.prefix, target, route=route, part=choice.part, forwarded=part)] = None
        for key in keys:
            self.marks.drop(key)
        told = fields if scope is None else as_fields(scope["headers"])
        tags = tags_of_urls(targets, told, self.settings.routes)
        await self.finish(
            asyncio.gather(*map(self.invalidate_key, keys), self._reported(self.groups.invalidate(tags)))
        )

    async def invalidate_groups(self, tags: tuple[str, ...]) -> None:
        """All stored responses with one of these tags: see `tags_invalidated`."""
        await self.finish(self._reported(self.groups.invalidate(tags)))

    async def finish(self, work: Awaitable[Any]) -> None:
        """In its own task: a server may cancel a request whose client has left, but its change is done."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(task)

    async def invalidate_key(self, key: str) -> None:
        await self._reported(self.engine.invalidate(self.engine.prefix + key, self.plan.policy))

    async def _reported(self, invalidation: Awaitable[Any]) -> None:
        """If the store refuses this client, the log reports it. The request's own change is done."""
        try:
            await invalidation
        except StoreError as error:
            if isinstance(error, StoreRefused):
                self.engine.store.note_refusal(error, "invalidate")
            log.warning("what a request has changed could not be invalidated: %s", error)

    async def put_later(
        self, key: str, draft: StoredResponse
    ) -> Callable[[StoredResponse], Awaitable[bool]] | None:
        """How to store a response that arrives without a request for it, after the invalidation that it caused. An
        invalidation before its end counts: it may have changed again. None: a running computation is newer.
        """
        policy = lifetimes(draft, self.plan.policy)
        if policy is None or self.engine.modes.of(self.plan) != "on":
            return None
        name = self.engine.prefix + key
        ahead = await self.judged.put_grant(name, policy)
        return ahead and functools.partial(self._put, name, policy, ahead)

    async def _put(self, name: str, policy: Policy, ahead: PutGrant, whole: StoredResponse) -> bool:
        return await self.judged.put(self.plan, name, whole, policy, ahead=ahead)

    async def aclose(self) -> None:
        """The guard first: running calls must end while the application still has its database. But the bodies under
        way need the guard.
        """
        await self.large.aclose(within=self.guard.limits.drain_timeout)
        await self.guard.aclose()
        loop = asyncio.get_running_loop()
        if tasks := [task for task in list(self._tasks) if task.get_loop() is loop]:
            _, left = await asyncio.wait(tasks, timeout=self.guard.limits.drain_timeout)
            for task in left:
                task.cancel()


def _place(key: str) -> _Place:
    """Requests in another thread's event loop must be woken by that loop."""
    return asyncio.get_running_loop(), key


def _resident(reading: Reading, stored: StoredResponse) -> float:
    """Seconds in the store, by the store's own clock. If an operator changed the lifetime, the response counts as
    old.
    """
    if 0 <= reading.remaining_ms <= reading.total_ms:
        return (reading.total_ms - reading.remaining_ms) / 1000
    return max(0.0, stored.lifetime - stored.age) + 1.0
