"""Leases: a namespace of names in a back end, and everything that is built on holding one.

A `Leases` may be made before there is an event loop, and used from several; it keeps a part for each, made at the
first use there. A forked child makes its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Self

from stampede_guard.environment import NOT_GIVEN, given_namespace
from stampede_guard.errors import Misuse, PolicyError
from stampede_guard.events import Hook
from stampede_guard.hooks import Hooks
from stampede_guard.leases import checks
from stampede_guard.leases.backend import Backend
from stampede_guard.leases.core.timing import JOB_TTL, LEADER_TTL, job_timing, leader_timing
from stampede_guard.leases.election import Election, OnLeader
from stampede_guard.leases.exclusive import Overlap, RunExclusive
from stampede_guard.leases.hold import Hold
from stampede_guard.leases.owner import this_process
from stampede_guard.leases.part import Part
from stampede_guard.leases.warmer import Warmer
from stampede_guard.leases.words import Audit, Forced, LeaseView, NotForced, Owner, Withheld
from stampede_guard.leases.world import SystemWorld, World, generation
from stampede_guard.portal import at_end, portal, portal_loop

__all__ = ["DEFAULT_WAIT", "Leases"]

# No colon: "shop" with "eu:import" would be "shop:eu" with "import".
NAMESPACE = re.compile(r"[A-Za-z0-9._-]{1,64}")
LONGEST_NAME = 200
DEFAULT_WAIT = 30.0
OPERATOR_TIMEOUT = 5.0
_HOUSES: weakref.WeakSet[Leases] = weakref.WeakSet()


class Leases:
    """Use `PostgresLeases`, `RedisLeases` or `MemoryLeases`; this is what they have in common.

    `open_backend` is called once in each event loop. `label` is what people call this process, besides its pod, host
    and process id. `hooks` are told `LeaseWon`, `LeaseReleased`, `HoldLost` and `LeaseSkipped` of
    `stampede_guard.events`. `namespace` is `$STAMPEDE_GUARD_NAMESPACE` or `default` where none is given. `world`: clock
    and timers, for simulations. Raises `Misuse` for a namespace or hook that cannot work.
    """

    def __init__(
        self,
        open_backend: Callable[[], Backend],
        *,
        namespace: str = NOT_GIVEN,
        label: str = "",
        hooks: Iterable[Hook] = (),
        world: Callable[[], World] = SystemWorld,
        owner: Owner | None = None,
    ) -> None:
        namespace, given_as = given_namespace(namespace)
        if not NAMESPACE.fullmatch(checks.text(namespace)):
            raise Misuse(f"{given_as} is not allowed: write 1 to 64 letters, digits, dots, - or _")
        if not isinstance(label, str):
            raise PolicyError("label", label, "write a text")
        if not isinstance(hooks, Iterable):
            raise PolicyError("hooks", hooks, "write a tuple of functions")
        self.namespace = namespace
        self.prefix = f"{namespace}:"
        self.label = label
        self._open_backend = open_backend
        self._world = world
        self._owner = owner
        self._hooks = Hooks(hooks)
        self._lock = threading.Lock()
        self._parts: dict[asyncio.AbstractEventLoop, Part] = {}
        self._elections: list[Election] = []
        self._closing: set[asyncio.Task[None]] = set()
        _HOUSES.add(self)

    # --- what is built on a lease

    def hold(
        self,
        name: str,
        lease_ttl: float = JOB_TTL,
        *,
        wait: float = DEFAULT_WAIT,
        grace: float | None = None,
        at_least_for: float = 0.0,
        renew_every: float | None = None,
        request_timeout: float | None = None,
        poll_every: float | None = None,
    ) -> Hold:
        """`async with leases.hold("import") as lease:`; in code without an event loop, `with`.

        The body is cancelled `grace` seconds before belief ends (default: a twelfth of `lease_ttl`), and the block
        then raises `LeaseLost`; in a `with`, look at `lease.stopping`. `wait`: seconds in the queue, 0 = ask once.
        Given back earlier than `at_least_for` seconds after its grant, nobody gets it before. Raises `LeaseTaken`
        when the wait is over, `StoreError` when the back end is away: nothing starts then; `PolicyError` for
        durations that contradict.
        """
        timing = job_timing(
            lease_ttl,
            grace=grace,
            renew_every=renew_every,
            request_timeout=request_timeout,
            poll_every=poll_every,
        )
        checks.seconds("wait", wait, endless=True)
        checks.seconds("at_least_for", at_least_for)
        return Hold(self, self.full(name), timing, wait=wait, at_least_for=at_least_for)

    def election(
        self,
        name: str,
        *,
        on_elected: OnLeader | None = None,
        on_lost: OnLeader | None = None,
        lease_ttl: float = LEADER_TTL,
        grace: float | None = None,
        renew_every: float | None = None,
        request_timeout: float | None = None,
        poll_every: float | None = None,
    ) -> Election:
        """One of all who stand for `name` leads: see `stampede_guard.leases.election`. It is not started by this.

        `on_elected(lease)` runs while it leads, and is cancelled when that ends; one that fails resigns.
        `on_lost(lease)` is called after it. Both may be coroutine functions. Raises `PolicyError` for durations that
        contradict.
        """
        timing = leader_timing(
            lease_ttl,
            grace=grace,
            renew_every=renew_every,
            request_timeout=request_timeout,
            poll_every=poll_every,
        )
        for field, function in (("on_elected", on_elected), ("on_lost", on_lost)):
            if function is not None:
                checks.takes_one(field, function, "the lease")
        made = Election(self, self.full(name), timing, on_elected=on_elected, on_lost=on_lost)
        self._elections.append(made)
        return made

    def run_exclusive(
        self,
        name: str,
        *,
        overlap: Overlap = "skip",
        at_least_for: float = 0.0,
        wait: float = float("inf"),
        lease_ttl: float = JOB_TTL,
        grace: float | None = None,
        renew_every: float | None = None,
        request_timeout: float | None = None,
        poll_every: float | None = None,
    ) -> RunExclusive:
        """A decorator: never two at a time, from wherever it is called. See `stampede_guard.leases.exclusive`."""
        timing = job_timing(
            lease_ttl,
            grace=grace,
            renew_every=renew_every,
            request_timeout=request_timeout,
            poll_every=poll_every,
        )
        checks.seconds("wait", wait, endless=True)
        checks.seconds("at_least_for", at_least_for)
        return RunExclusive(
            self, self.full(name), timing, overlap=overlap, at_least_for=at_least_for, wait=wait
        )

    def warmer(self, guard: Any, name: str = "warmer", **options: Any) -> Warmer:
        """The elected worker refreshes hot keys before they expire. See `stampede_guard.leases.warmer`."""
        return Warmer(self, guard, name, **options)

    # --- for operators

    async def show(self, name: str) -> LeaseView | None:
        """A lease as the back end knows it; None if nobody ever had it."""
        return await self.part().backend.show(self.full(name), timeout=OPERATOR_TIMEOUT)

    async def views(self, *, limit: int = 1_000) -> list[LeaseView]:
        """All of this namespace."""
        return await self.part().backend.views(self.prefix, limit=limit, timeout=OPERATOR_TIMEOUT)

    async def withheld(self, lease_ttl: float = JOB_TTL) -> Withheld | None:
        """Whether the back end grants nothing for now, why, and for how long: a Redis that was started a moment ago."""
        asked = getattr(self.part().backend, "withheld", None)
        found: Withheld | None = None
        if asked is not None:
            found = await asked(lease_ttl, timeout=OPERATOR_TIMEOUT)
        return found

    async def audits(self, *, limit: int = 100) -> list[Audit]:
        """What operators did in this namespace, newest first."""
        return await self.part().backend.audits(self.prefix, limit=limit, timeout=OPERATOR_TIMEOUT)

    async def force_release(self, name: str, *, token: int, by: str, now: bool = False) -> Forced | NotForced:
        """Have it given back by whoever holds it under `token`, the one that was seen; `by`: who wants that.

        The holder hears of it at once where the back end's hint reaches him, at his next renewal otherwise; he stops
        and gives back. Until then, or until his lease ends, nobody gets it. With `now` he is not waited for: until he
        notices, two may believe. Either way it is written down.
        """
        if not by:
            raise Misuse("force_release(by=...) is written down: say who asks for it")
        return await self.part().backend.force(
            self.full(name), token=token, by=by, now=now, timeout=OPERATOR_TIMEOUT
        )

    def health(self) -> dict[str, Any]:
        """For a health endpoint: who this process is, what it holds and what it leads. Asks nobody."""
        owner = self._owner or this_process(self.label)
        return {
            "namespace": self.namespace,
            "process": owner.process,
            "pod": owner.pod,
            "pid": owner.pid,
            "holds": [
                {"name": keeper.name, "token": keeper.token, "remaining": keeper.remaining()}
                for part in list(self._parts.values())
                for keeper in sorted(part.keepers.copy(), key=lambda keeper: keeper.name)
                if keeper.remaining() > 0
            ],
            "elections": [election.health() for election in self._elections],
        }

    # --- life

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: Any = None) -> AsyncIterator[None]:
        """`FastAPI(lifespan=leases.lifespan)`: stands in all elections made so far; at the end hands over."""
        started: list[Election] = []
        async with self.in_use():
            try:
                for election in list(self._elections):
                    election.start()
                    started.append(election)
                yield
            finally:
                await asyncio.gather(*(election.stop() for election in started))

    @contextlib.asynccontextmanager
    async def in_use(self) -> AsyncIterator[None]:
        """Closed at the end, unless others of this event loop go on with it: two `Jobs` may share their leases."""
        part = self.part()
        part.users += 1
        try:
            yield
        finally:
            part.users -= 1
            if not part.users:
                await self.aclose()

    async def aclose(self) -> None:
        """End this event loop's part and that of plain code.

        Jobs that were started are stopped first, as by `Jobs.stop()`; elections are handed over, requests are waited
        for. What else runs under a lease is not. Cancelled, it goes on.
        """
        await self._close_here()
        if portal_loop() in self._parts:
            await portal().elsewhere(self._close_here)

    def close(self) -> None:
        """End the part of plain code. Done by itself when the process ends."""
        if portal_loop() in self._parts:
            portal().call(self._close_here)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _close_here(self) -> None:
        part = self._parts.get(asyncio.get_running_loop())
        if part is None:
            return
        try:
            for end in tuple(part.before_closing):
                # While the part is still there: what ends needs it for its last requests.
                await end()
        except asyncio.CancelledError:
            self._begin_closing(part)
            raise
        except Exception:
            await asyncio.shield(self._begin_closing(part))
            raise
        await asyncio.shield(self._begin_closing(part))

    def _begin_closing(self, part: Part) -> asyncio.Task[None]:
        """In a task of its own: what was closed by half nobody would close."""
        task = asyncio.create_task(self._ended(part), name="stampede_guard closes leases")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    async def _ended(self, part: Part) -> None:
        standing = [election for election in self._elections if election.part is part]
        # Who leads may need the part to tidy up.
        await asyncio.gather(*(election.stop() for election in standing))
        loop = asyncio.get_running_loop()
        with self._lock:
            still_ours = self._parts.get(loop) is part
            if still_ours:
                del self._parts[loop]
        if still_ours:
            await part.aclose()

    # --- what faces are built on

    def full(self, name: str) -> str:
        """The complete name. Raises `Misuse` for one that cannot be."""
        if not _can_be_a_name(name):
            raise Misuse(
                f"a lease or a job cannot be called {name!r}: write 1 to {LONGEST_NAME} printable characters"
            )
        return self.prefix + name

    def part(self) -> Part:
        """The running event loop's."""
        loop = asyncio.get_running_loop()
        part = self._parts.get(loop)
        if part is None or part.generation != generation():
            # Without a lock: only this loop's thread makes its part.
            owner = self._owner or this_process(self.label)
            part = Part(
                self._open_backend(), world=self._world(), owner=owner, hooks=self._hooks, prefix=self.prefix
            )
            with self._lock:
                self._forget_closed_loops()
                self._parts[loop] = part
        return part

    def leave_the_parents(self) -> None:
        """In a forked child: its sockets are copies, and to use or to end them would disturb the parent."""
        for part in self._parts.values():
            abandon = getattr(part.backend, "abandon", None)
            if abandon is not None:
                abandon()
        self._parts.clear()
        for election in self._elections:
            election.leave_the_parents()
        # Another thread of the parent may have held it.
        self._lock = threading.Lock()

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in self._parts if loop.is_closed()]:
            del self._parts[loop]


def _can_be_a_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable()


def _close_all() -> None:
    for house in list(_HOUSES):
        house.close()


at_end(_close_all)


def _after_fork() -> None:
    for house in list(_HOUSES):
        house.leave_the_parents()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
