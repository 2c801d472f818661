"""Batched functions in a fuzzed fleet: each id is a key of its own, and so a call of its own for the judge."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from stampede_guard import StampedeGuard
from stampede_guard.policy import Policy
from tests.engine.fuzz.case import Action, Case
from tests.engine.fuzz.journal import Call, number_in

if TYPE_CHECKING:
    from tests.engine.fuzz.scenario import Fleet

__all__ = ["Batches"]


class Batches:
    """The batched function of each guard. `entries`: the names of its ids in the store."""

    def __init__(self, fleet: Fleet, case: Case) -> None:
        self.faces: dict[str, Any] = {}
        self.entries: dict[str, str] = {}
        self._fleet = fleet
        self._last: dict[str, int] = {}
        ids = [name for name, key in case.keys.items() if key.many]
        if not ids:
            return
        for label, guard in fleet.guards.items():
            self.faces[label] = face = self._face(label, guard, case, ids[0])
            self.entries = face.keys(ids)

    def _face(self, label: str, guard: StampedeGuard, case: Case, like: str) -> Any:
        key = case.keys[like]
        options: dict[str, Any] = {**key.fields, **case.policies.get(label, {})}
        ttl = options["ttl"]
        if key.uncacheable:
            options["should_cache"] = lambda value: not key.never and number_in(value) % 3 > 0
        if key.own_ttl:
            options["ttl"] = lambda value: ttl * (1 + number_in(value) % 2)
        if key.tags:
            options["tags"] = key.tags

        @guard.cached_many(name="values", max_ids=case.most, **options)
        async def values(ids: list[str]) -> dict[str, str]:
            return await self._compute(label, ids)

        return values

    async def _compute(self, label: str, ids: list[str]) -> dict[str, str]:
        # Calls are computed together. So it does what the last of them shall do.
        index = self._last[label]
        action = self._fleet.case.actions[index]
        kind = self._fleet.kind_of(action, "many", guard=label)
        texts = await self._fleet.compute(index, action, kind=kind, guard=label, keys=tuple(ids))
        return {} if action.outcome == "absent" else dict(zip(ids, texts, strict=True))

    async def call(self, index: int, action: Action) -> None:
        """Each id is a call. An error is that of the key whose computation raised it."""
        fleet, face = self._fleet, self.faces[action.guard]
        self._last[action.guard] = index
        key = fleet.case.keys[action.key]
        policy = Policy(**{**key.fields, **fleet.case.policies.get(action.guard, {})})
        kind = fleet.kind_of(action, "refresh" if action.kind == "many refresh" else "get")
        calls = [
            Call(index, action.guard, id, kind, policy, False, fleet.journal.now(), group=action.ids)
            for id in action.ids
        ]
        fleet.journal.calls += calls
        ended = calls
        try:
            serve = face.refresh if action.kind == "many refresh" else face
            values = await serve(list(action.ids))
            for call in calls:
                call.made = number_in(values.get(call.key))
                if not call.made and call.key in values:
                    fleet.journal.problems.append(f"call {index} got {values!r}")
                call.absent = call.key not in values
        except asyncio.CancelledError as error:
            for call in calls:
                call.error, call.cancelled = error, True
            raise
        except BaseException as error:
            # The error of a batch names the first of its ids.
            of = fleet.journal.batches.get(number_in(error), {})
            ended = [call for call in calls if call.key in of] or calls[:1]
            for call in ended:
                call.error, call.made = error, of.get(call.key, number_in(error))
        finally:
            for call in calls:
                call.ended = fleet.journal.now()
            fleet.journal.calls = [each for each in fleet.journal.calls if each not in calls or each in ended]
            if kind == "refresh":
                for call in ended:
                    if call.made and call.error is None:
                        fleet.has_refreshed(call)
            fleet.journal.note(f"call {index} ends: {[(c.key, c.made, c.error) for c in ended]}")

    async def invalidate(self, action: Action) -> str:
        answer: str = await self.faces[action.guard].invalidate(list(action.ids))
        return answer
