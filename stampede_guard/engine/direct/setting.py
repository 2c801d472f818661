"""Store a value that a caller has, without a computation.

The value takes a token before it is sent (`core.scripts.stamp`), and is published under it like any other value. So

* a computation that began before is outdated, and its value is refused;
* a computation or an invalidation that began later is newer, and this value is refused;
* a command without an answer that the store carries out late can bring nothing old back.

After `"stored"`, no later caller gets an older value: the same promise as an invalidation's, by the same steps.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from stampede_guard.core.asks import Granted
from stampede_guard.core.caller import store_deadline
from stampede_guard.core.entry import Reading
from stampede_guard.core.tags import resealed
from stampede_guard.engine.serving import keep_near
from stampede_guard.engine.tags.versions import ensure
from stampede_guard.engine.verdict import judge
from stampede_guard.errors import StoreError, StoreRefused, UnsupportedValue

if TYPE_CHECKING:
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Plan
    from stampede_guard.policy import Policy

__all__ = ["Stored", "encoded", "set_value"]

Stored = Literal["stored", "superseded", "dropped", "pending"]
"""The outcome of setting a value.

`stored`      Later callers get it.
`superseded`  A computation or an invalidation that began later was faster. It counts, and the value is not stored.
`dropped`     It is not stored, and the older value is gone. The store is full or has just lost data; a `ttl` or
              `should_cache` function of the value forbids it; or the mode is `bypass` or `off`.
`pending`     The store is away. The older value is invalidated as soon as it is back; see `Invalidation`.
"""

TRIES = 2


async def set_value(
    runtime: Runtime, plan: Plan, name: str, body: bytes, policy: Policy, tags: tuple[str, ...]
) -> Stored:
    """Store what `encoded` has made of a value. Raises `StoreRefused` as `invalidate` does."""
    setting = _Setting(runtime, policy, name, body, tags)
    asked = runtime.l1.ask(name, tags) if plan.l1 else None
    token = await runtime.replace(name, setting.store)
    if setting.outcome == "pending":
        # Until the store is back, this process may serve it, like a value that it has computed alone.
        body = resealed(body, runtime.tags.versions(tags)) if tags else body
        runtime.remember(name, Reading(body, 0, policy.total_ms, policy.stale_ms, policy.total_ms))
    elif setting.outcome == "stored" and token is not None:
        reading = Reading(setting.body, token, policy.total_ms, policy.stale_ms, policy.total_ms)
        runtime.learn(name, reading)
        keep_near(runtime, plan, name, reading, asked, tags)
    return setting.outcome


def encoded(plan: Plan, value: Any) -> tuple[bytes, Policy | None]:
    """The bytes of a value, and its lifetimes. No policy: a function of the value forbids storing it.

    Raises `UnsupportedValue`, also for a value that is too large.
    """
    body, policy = judge(plan, value, None)
    most = plan.policy.max_value_bytes
    if len(body) > most:
        raise UnsupportedValue(
            f"{plan.title}: a value of {len(body)} bytes is too large to store; max_value_bytes is {most}"
        )
    return body, policy


class _Setting:
    """One value on its way. `outcome` is right when `store` has ended."""

    def __init__(
        self, runtime: Runtime, policy: Policy, name: str, body: bytes, tags: tuple[str, ...]
    ) -> None:
        self.body = body
        self.outcome: Stored = "pending"
        self._runtime = runtime
        self._policy = policy
        self._name = name
        self._tags = tags

    async def store(self) -> int | None:
        """The token. None: the store is away, and an invalidation waits for it. Raises `StoreRefused`."""
        late = False
        for _ in range(TRIES):
            if self._runtime.away_for(self._name, self._tags):
                break
            try:
                async with asyncio.timeout(store_deadline(late=late)):
                    return await self._publish(self._policy)
            except TimeoutError:
                break
            except StoreRefused as error:
                if not error.may_pass:
                    raise
                break
            except StoreError as error:
                late = error.late
        self._runtime.wait_with(self._name, self._policy)
        return None

    async def _publish(self, policy: Policy) -> int:
        runtime, session, name = self._runtime, self._runtime.session, self._name
        # The versions are those from before the value is stored: an invalidation of a tag from now on counts.
        grant, versions = await asyncio.gather(
            session.stamp(name, policy=policy), ensure(runtime, self._tags, policy)
        )
        body = resealed(self.body, versions) if self._tags else self.body
        waiting = [
            (flight, flight.joined)
            for flight in runtime.flights.of(name)
            if flight.computing and flight.tags == self._tags
        ]
        stored = await session.publish(
            name, flight=runtime.new_id(), grant=grant, outcome="value", body=body, policy=policy
        )
        self.body = body
        if not stored:
            return await self._refused(grant, policy)
        if name in runtime.unkept:
            self.outcome = "dropped"
        else:
            self.outcome = "stored"
            for flight, joined in waiting:
                # They asked before the value was sent, as if they had read the store just after that.
                flight.passengers.hand_out(body, last=joined, but=flight.leader)
        runtime.published(name, value=True)
        return grant.token

    async def _refused(self, grant: Granted, policy: Policy) -> int:
        """A newer fence or value is there; or the record was lost, and with it the knowledge of later invalidations."""
        record = await self._runtime.session.fence(self._name)
        if record is not None and record[0] == grant.epoch:
            self.outcome = "superseded"
            return grant.token
        # The older value may still be there, and fresh.
        fence = await self._runtime.session.invalidate(self._name, policy=policy)
        self.outcome = "dropped"
        return fence
