"""Which entry a request asks for, where responses say that parts of the query do not matter (No-Vary-Search).

A response with a rule has one entry for all queries that are equal under it, whose name contains the rule. A request
finds it by the rule of its path, which this process remembers, and a note in the store tells all processes.

The rule of a path is a hint. It chooses a name, and never what may be served:

- Only a response with the very rule is stored under a name that contains it. One without, such as an error page, goes
  to its client alone, and this process asks for that query by its own URL for a minute. So a rule that was true of one
  query serves no other query whose response does not say the same.
- The name contains all else that distinguishes requests: the user, the route, the URL that a proxy was asked for.
- Each has the tag of its path, which unsafe requests and purges drop (`tag_of_path`). Its versions are read before the
  application is called. A response whose rule comes as a surprise is therefore not stored, only its rule is noted.

The first response of a path is stored under its own URL, because its rule was not known when its flight began. The note
names it, so it serves all equal queries until it is stale.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from stampede_guard.engine.engine import Engine
from stampede_guard.engine.plan import Plan
from stampede_guard.errors import StoreError
from stampede_guard.http.groups import VersionsBefore
from stampede_guard.http.judging import lifetimes
from stampede_guard.http.queries.rules import simplified
from stampede_guard.http.requests.entries import base_name, path_of
from stampede_guard.http.requests.origin import tag_of_path
from stampede_guard.http.requests.request import CacheRequest
from stampede_guard.http.requests.stored import Lookup, SearchNote, StoredResponse
from stampede_guard.http.spec.reuse import verdict

__all__ = ["ENOUGH_WITHOUT", "KNOWN_SECONDS", "MOST_PATHS", "Searching"]

MOST_PATHS = 4096
"""Paths whose rule a process remembers, and queries that it asks for by their own URL."""
KNOWN_SECONDS = 60.0
"""For so long a process believes that a path has no rule, or that a query has none."""
ENOUGH_WITHOUT = 64
MOST_STRAYS = 8
"""After so many responses in a row with another rule, or none, it is that of the path. A hit in between counts, too."""


class PathRule(NamedTuple):
    """`rule` empty: its responses had none. `first`: the query of one that has a name of its own; None = none is
    known. `noted_until`: the store has the note. `is_outdated`: it may have another one. `strays`: responses with
    another rule, or none, since the last one with it.
    """

    rule: str = ""
    first: str | None = None
    until: float = 0.0
    noted_until: float = 0.0
    strays: int = 0
    is_outdated: bool = False


class Searching:
    """`are_used`: whether this process has seen a rule. `is_curious`: it looks for one on paths that it does not know.
    After `ENOUGH_WITHOUT` paths without any it looks no longer, because that makes a miss dearer. Then the first
    response with a rule comes as a surprise.
    """

    def __init__(self, engine: Engine, plan: Plan, prefix: str, now: Callable[[], float]) -> None:
        self._engine = engine
        self._plan = plan
        self._prefix = prefix
        self._now = now
        self._paths: OrderedDict[str, PathRule] = OrderedDict()
        self._alone: OrderedDict[str, float] = OrderedDict()
        self.are_used = False
        self.is_curious = True
        self._without = 0

    # --- names -----------------------------------------------------------------------------------

    def own_name(self, request: CacheRequest, rule: str | None = None, query: str | None = None) -> str:
        """The name of its URL, or of another query. With a rule: of all queries that are equal under it."""
        target = request.target if query is None else replace(request.target, query=query)
        return base_name(
            self._prefix,
            target,
            route=request.route,
            part=request.part,
            forwarded=request.forwarded_for,
            user=request.user,
            rule=rule,
        )

    def name_of(self, request: CacheRequest) -> str:
        """Where it is computed, as far as this process knows."""
        own = self.own_name(request)
        known = self._known(request, own) if self.are_used else None
        return own if known is None or not known.rule else self._shared_name(request, own, known.rule)

    def _shared_name(self, request: CacheRequest, own: str, rule: str) -> str:
        return own if self._alone.get(own, 0.0) > self._now() else self.own_name(request, rule)

    def _known(self, request: CacheRequest, own: str) -> PathRule | None:
        if not self._paths or not request.is_searchable:
            return None
        known = self._paths.get(path := path_of(own))
        if known is None or (not known.rule and known.until <= self._now()):
            return None
        self._paths.move_to_end(path)
        return known

    # --- reading ---------------------------------------------------------------------------------

    async def find(
        self, request: CacheRequest, at: Callable[[CacheRequest, str], Awaitable[Lookup]]
    ) -> Lookup:
        """`at` reads an entry. One round trip, and a second one when this process learns the rule from the store."""
        own = self.own_name(request)
        if not request.is_searchable:
            return await at(request, own)
        known, found = self._known(request, own), None
        if known is None:
            found, note = await asyncio.gather(at(request, own), self._note(request))
            if note is not None:
                self._remember(own, note.rule, note.first, noted=True)
            elif found.stored is not None:
                self._remember(
                    own, found.stored.search, request.target.query if found.stored.search else None
                )
            known = self._known(request, own)
        name = own if known is None or not known.rule else self._shared_name(request, own, known.rule)
        if known is None or name == own or (found is not None and _is_fresh(found, request)):
            return found or await at(request, own)
        other = self._first_name(request, known)
        if other is None:
            shared = await at(request, name)
            if shared.stored is not None:
                self._confirm(own, known)
            return shared
        shared, first = await asyncio.gather(at(request, name), at(request, other))
        if shared.stored is not None:
            self._put(self._paths, path_of(own), known._replace(first=None, strays=0))
        elif first.stored is not None and first.stored.search == known.rule and _is_fresh(first, request):
            self._confirm(own, known)
            return first
        return shared

    async def _note(self, request: CacheRequest) -> SearchNote | None:
        name = self._engine.prefix + self.own_name(request, "")
        _, found = await self._engine.judged.read(self._plan, name)
        return found if isinstance(found, SearchNote) else None

    def _first_name(self, request: CacheRequest, known: PathRule) -> str | None:
        """The own name of a response that may serve this request, too."""
        if known.first is None:
            return None
        if simplified(known.first, known.rule) != simplified(request.target.query, known.rule):
            return None
        return self.own_name(request, query=known.first)

    # --- a new response --------------------------------------------------------------------------

    def tags_before(self, request: CacheRequest) -> tuple[str, ...]:
        """The tags that its response may turn out to have."""
        if not request.is_searchable or not (self.are_used or (self.is_curious and request.target.query)):
            return ()
        known = self._known(request, self.own_name(request))
        return () if known is not None and not known.rule else (tag_of_path(request.target.path),)

    def accepts(
        self, request: CacheRequest, name: str, draft: StoredResponse, before: VersionsBefore | None
    ) -> bool:
        """Whether a response may be stored under this name. This process learns from it which name would be right."""
        if not request.is_searchable:
            return True
        assert before is not None, "it is read before the application is called"
        own, rule = self.own_name(request), draft.search
        known = self._known(request, own)
        unread = before.window is not None and tag_of_path(request.target.path) not in before.known
        if _is_of(name, own):
            if known is not None and known.rule and known.rule != rule:
                if rule:
                    self._stray(request, own, known, rule)
            elif rule:
                self._alone.pop(own, None)
                self._remember(own, rule, None if unread else request.target.query)
            elif known is None:
                self._remember(own, "", None)
            return not (rule and unread)
        if rule and _is_of(name, self.own_name(request, rule)):
            self._confirm(own, known)
            return not unread
        if request.method == "GET":
            # What a HEAD returns says less than what a GET would.
            self._stray(request, own, known, rule)
        return False

    def _confirm(self, own: str, known: PathRule | None) -> None:
        if known is not None and known.strays:
            self._put(self._paths, path_of(own), known._replace(strays=0))

    def _stray(self, request: CacheRequest, own: str, known: PathRule | None, rule: str) -> None:
        """A response with another rule than its path, or none.

        It does not change the rule of the path at once. 1. A path is hot, and its response is fresh. 2. A client finds
        an error page without the rule. 3. If the rule were forgotten, each query would be a computation of its own.
        """
        if known is None or not known.rule:
            if rule:
                self._remember(own, rule, None)
            return
        if rule == known.rule:
            return  # the path has changed its rule since this flight began
        self._put(self._alone, own, self._now() + KNOWN_SECONDS)
        if known.strays + 1 < MOST_STRAYS:
            self._put(self._paths, path_of(own), known._replace(strays=known.strays + 1))
        else:
            # The application has changed its mind, and no note of the old rule should lead here again.
            new = PathRule(rule, until=self._now() + KNOWN_SECONDS, is_outdated=True)
            self._put(self._paths, path_of(own), new)

    async def tell(self, request: CacheRequest, draft: StoredResponse) -> None:
        """Note the rule for other processes, unless that was done lately."""
        if not request.is_searchable or self._engine.modes.of(self._plan) != "on":
            return
        own, now = self.own_name(request), self._now()
        known = self._known(request, own)
        policy = lifetimes(draft, self._plan.policy)
        if known is None or policy is None or known.noted_until > now:
            return
        name = self._engine.prefix + self.own_name(request, "")
        if known.is_outdated:
            with contextlib.suppress(StoreError):
                await self._engine.invalidate(name, policy)
        if known.rule and known.rule == draft.search:
            await self._engine.judged.put(self._plan, name, SearchNote(known.rule, known.first), policy)
        elif not known.is_outdated:
            return
        lasting = (policy.ttl + policy.stale_ttl) / 2
        self._put(self._paths, path_of(own), known._replace(noted_until=now + lasting, is_outdated=False))

    # --- memory ----------------------------------------------------------------------------------

    def _remember(self, own: str, rule: str, first: str | None, *, noted: bool = False) -> None:
        now, path = self._now(), path_of(own)
        old = self._paths.get(path)
        self.are_used = self.are_used or bool(rule)
        if not rule and old is None:
            self._without += 1
            self.is_curious = self._without < ENOUGH_WITHOUT
        new = PathRule(rule, first, now + KNOWN_SECONDS, now + KNOWN_SECONDS if noted else 0.0)
        if old is not None and old.rule == rule:
            new = new._replace(
                first=old.first if first is None else first, noted_until=max(old.noted_until, new.noted_until)
            )
        elif old is not None and old.rule:
            new = new._replace(is_outdated=not noted)
        self._put(self._paths, path, new)

    @staticmethod
    def _put(memory: OrderedDict[str, Any], name: str, value: object) -> None:
        memory.pop(name, None)
        memory[name] = value
        if len(memory) > MOST_PATHS:
            memory.popitem(last=False)


def _is_of(name: str, base: str) -> bool:
    """Whether it is this name, or that of another variant of the entry (`variant_name`)."""
    return name == base or name.startswith(f"{base}#")


def _is_fresh(found: Lookup, request: CacheRequest) -> bool:
    stored = found.stored
    return (
        stored is not None
        and not stored.part
        and verdict(stored.situation(found.age), request.asking) == "fresh"
    )
