"""Leases: a namespace of lease names in a back end, and the features that are built on leases.

A `Leases` may be made before an event loop exists, and used in several. It makes one `Part` per event loop, at the
first use there. A forked child makes its own parts.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from stampede_guard.api.environment import NOT_GIVEN, given_namespace
from stampede_guard.durations import Duration
from stampede_guard.engine.hooks import Hooks
from stampede_guard.engine.threads.portal import at_end, portal, portal_loop
from stampede_guard.errors import Misuse, PolicyError
from stampede_guard.events import Hook
from stampede_guard.leases import checks
from stampede_guard.leases.core.timing import JOB_TTL, LEADER_TTL, TimingOptions, job_timing, leader_timing
from stampede_guard.leases.election import Election, OnLeader
from stampede_guard.leases.exclusive import Overlap, RunExclusive
from stampede_guard.leases.hold import Hold
from stampede_guard.leases.keeping.loop_state import LoopState
from stampede_guard.leases.keeping.world import SystemWorld, World, generation
from stampede_guard.leases.messages import Audit, Forced, LeaseView, NotForced, Owner, Withheld
from stampede_guard.leases.owner import this_process
from stampede_guard.leases.protocol import Backend
from stampede_guard.leases.warmer import Warmer, WarmerOptions
from stampede_guard.options import ALL, takes_options
from stampede_guard.values.forks import in_children

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = ["DEFAULT_WAIT", "Leases", "LeasesOptions"]

# Colons are not allowed: otherwise "shop" with "eu:import" would be the same as "shop:eu" with "import".
NAMESPACE = re.compile(r"[A-Za-z0-9._-]{1,64}")
LONGEST_NAME = 200
DEFAULT_WAIT = 30.0
OPERATOR_TIMEOUT = 5.0
_HOUSES: weakref.WeakSet[Leases] = weakref.WeakSet()


class LeasesOptions(TypedDict, total=False):
    """Options of `MemoryLeases(...)`, and of `from_url` and the like of other back ends."""

    namespace: str
    label: str
    hooks: Iterable[Hook]
    world: Callable[[], World]
    owner: Owner | None


class Leases:
    """The common base of `PostgresLeases`, `RedisLeases` and `MemoryLeases`; use one of these.

    `open_backend` is called once per event loop. `label` is a name of this process for people, in addition to its pod,
    host and process id. `hooks` receive the events `LeaseWon`, `LeaseReleased`, `HoldLost` and `LeaseSkipped` of
    `stampede_guard.events`. `namespace` defaults to `$STAMPEDE_GUARD_NAMESPACE`, else `default`. `world`: clock and
    timers, for simulations. Raises `Misuse` for an invalid namespace or hook.
    """

    @takes_options("Leases", own=("namespace", "label", "hooks"))
    def __init__(
        self,
        open_backend: Callable[[], Backend],
        **options: Unpack[LeasesOptions],
    ) -> None:
        namespace, given_as = given_namespace(options.get("namespace", NOT_GIVEN))
        label, hooks = options.get("label", ""), options.get("hooks", ())
        if not NAMESPACE.fullmatch(checks.text(namespace)):
            raise Misuse(f"{given_as} is not allowed: write 1 to 64 letters, digits, dots, - or _")
        if label != checks.storable(checks.text(label)):
            raise PolicyError(
                "label", label, "write a text, without NUL and without halves of surrogate pairs"
            )
        if not isinstance(hooks, Iterable):
            raise PolicyError("hooks", hooks, "write a tuple of functions")
        self.namespace = namespace
        self.prefix = f"{namespace}:"
        self.label = label
        self._open_backend = open_backend
        self._world = options.get("world", SystemWorld)
        self._owner = options.get("owner")
        self._hooks = Hooks(hooks)
        self._lock = threading.Lock()
        self._parts: dict[asyncio.AbstractEventLoop, LoopState] = {}
        self._elections: list[Election] = []
        self._closing: set[asyncio.Task[None]] = set()
        _HOUSES.add(self)

    # --- features built on a lease

    @takes_options("leases.hold", own=ALL)
    def hold(
        self,
        name: str,
        lease_ttl: Duration = JOB_TTL,
        *,
        wait: Duration = DEFAULT_WAIT,
        at_least_for: Duration = 0.0,
        **timing: Unpack[TimingOptions],
    ) -> Hold:
        """`async with leases.hold("import") as lease:`; in code without an event loop, `with`.

        If the lease cannot be renewed, the body is cancelled `grace` seconds before belief ends (default: a twelfth of
        `lease_ttl`), and the block raises `LeaseLost`. In a `with`, check `lease.stopping`. `wait`: seconds in the
        queue, 0 = ask once. After an early release, the lease cannot be granted until `at_least_for` seconds after its
        grant. Raises `LeaseTaken` when the wait is over. Raises `StoreError` when the back end is away: the body does
        not run. Raises `PolicyError` for durations that contradict each other.
        """
        durations = job_timing(lease_ttl, **timing)
        longest = checks.seconds("wait", wait, endless=True)
        held = checks.seconds("at_least_for", at_least_for)
        return Hold(self, self.full(name), durations, wait=longest, at_least_for=held)

    @takes_options("leases.election", own=ALL)
    def election(
        self,
        name: str,
        *,
        on_elected: OnLeader | None = None,
        on_lost: OnLeader | None = None,
        lease_ttl: Duration = LEADER_TTL,
        **timing: Unpack[TimingOptions],
    ) -> Election:
        """One of the candidates for `name` leads: see `stampede_guard.leases.election`. This call does not start it.

        `on_elected(lease)` runs while this process leads, and is cancelled when that ends. If it fails, this process
        resigns. `on_lost(lease)` is called after it. Both may be coroutine functions. Raises `PolicyError` for
        durations that contradict each other.
        """
        durations = leader_timing(lease_ttl, **timing)
        for field, function in (("on_elected", on_elected), ("on_lost", on_lost)):
            if function is not None:
                checks.takes_one(field, function, "the lease")
        made = Election(self, self.full(name), durations, on_elected=on_elected, on_lost=on_lost)
        self._elections.append(made)
        return made

    @takes_options("leases.run_exclusive", own=ALL)
    def run_exclusive(
        self,
        name: str,
        *,
        overlap: Overlap = "skip",
        at_least_for: Duration = 0.0,
        wait: Duration = float("inf"),
        lease_ttl: Duration = JOB_TTL,
        **timing: Unpack[TimingOptions],
    ) -> RunExclusive:
        """A decorator: at most one call runs at a time, in all processes. See `stampede_guard.leases.exclusive`."""
        durations = job_timing(lease_ttl, **timing)
        longest = checks.seconds("wait", wait, endless=True)
        held = checks.seconds("at_least_for", at_least_for)
        return RunExclusive(
            self, self.full(name), durations, overlap=overlap, at_least_for=held, wait=longest
        )

    @takes_options("leases.warmer", own=ALL)
    def warmer(self, guard: StampedeGuard, name: str = "warmer", **options: Unpack[WarmerOptions]) -> Warmer:
        """The elected worker refreshes hot keys before they expire. See `stampede_guard.leases.warmer`."""
        return Warmer(self, guard, name, **options)

    # --- for operators

    @takes_options("leases.show", own=ALL)
    async def show(self, name: str) -> LeaseView | None:
        """The lease as the back end knows it; None if it was never granted."""
        return await self.part().backend.show(self.full(name), timeout=OPERATOR_TIMEOUT)

    @takes_options("leases.views")
    async def views(self, *, limit: int = 1_000) -> list[LeaseView]:
        """The leases of this namespace, at most `limit`."""
        return await self.part().backend.views(self.prefix, limit=limit, timeout=OPERATOR_TIMEOUT)

    @takes_options("leases.withheld", own=ALL)
    async def withheld(self, lease_ttl: float = JOB_TTL) -> Withheld | None:
        """Whether the back end grants nothing now, why, and for how long. Example: a Redis that was just started."""
        asked = getattr(self.part().backend, "withheld", None)
        found: Withheld | None = None
        if asked is not None:
            found = await asked(lease_ttl, timeout=OPERATOR_TIMEOUT)
        return found

    @takes_options("leases.audits")
    async def audits(self, *, limit: int = 100) -> list[Audit]:
        """The actions of operators in this namespace, newest first."""
        return await self.part().backend.audits(self.prefix, limit=limit, timeout=OPERATOR_TIMEOUT)

    @takes_options("leases.force_release")
    async def force_release(self, name: str, *, token: int, by: str, now: bool = False) -> Forced | NotForced:
        """Ask the holder to release the lease, if its token is still `token`. `by`: the operator who asks.

        The holder receives the request at once if the back end's hint reaches it, else at its next renewal. Then it
        stops and releases. Until then, or until its lease ends, no other process gets the lease. With `now`, the back
        end does not wait for the holder. Until the holder notices, two may believe. Each call is recorded as an audit.
        """
        if not by or not isinstance(by, str):
            raise Misuse('force_release(by=...) is recorded: write who asks for it, such as by="alice"')
        return await self.part().backend.force(
            self.full(name), token=token, by=checks.storable(by), now=now, timeout=OPERATOR_TIMEOUT
        )

    def health(self) -> dict[str, Any]:
        """For a health endpoint: this process, its leases and its elections. Sends no request."""
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
        """`FastAPI(lifespan=leases.lifespan)`: a candidate in all elections made so far. At the end it steps down."""
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
        """Close at the end, unless other users in this event loop remain: two `Jobs` may share their leases."""
        part = self.part()
        part.users += 1
        try:
            yield
        finally:
            part.users -= 1
            if not part.users:
                await self.aclose()

    async def aclose(self) -> None:
        """Close the part of this event loop, and the part of plain code.

        1. Started jobs are stopped, as by `Jobs.stop()`. 2. Leaders step down. 3. Running requests are awaited. Other
        work under a lease is not awaited. If the caller is cancelled, closing continues.
        """
        await self._close_here()
        if portal_loop() in self._parts:
            await portal().elsewhere(self._close_here)

    def close(self) -> None:
        """Close the part of plain code. This also happens automatically when the process exits."""
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
                # Before the part is closed: these functions still send requests through it.
                await end()
        except asyncio.CancelledError:
            self._begin_closing(part)
            raise
        except Exception:
            await asyncio.shield(self._begin_closing(part))
            raise
        await asyncio.shield(self._begin_closing(part))

    def _begin_closing(self, part: LoopState) -> asyncio.Task[None]:
        """Close in a separate task. Otherwise a cancellation would leave the part half closed."""
        task = asyncio.create_task(self._ended(part), name="stampede_guard closes leases")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    async def _ended(self, part: LoopState) -> None:
        standing = [election for election in self._elections if election.part is part]
        # Stop elections first: a leader may use the part for its clean-up.
        await asyncio.gather(*(election.stop() for election in standing))
        loop = asyncio.get_running_loop()
        with self._lock:
            still_ours = self._parts.get(loop) is part
            if still_ours:
                del self._parts[loop]
        if still_ours:
            await part.aclose()

    # --- for the other modules of this package

    @takes_options("leases.full", own=ALL)
    def full(self, name: str) -> str:
        """The complete name. Raises `Misuse` for an invalid name."""
        if not _can_be_a_name(name):
            raise Misuse(
                f"{name!r} cannot be the name of a lease or a job: write 1 to {LONGEST_NAME} printable characters"
            )
        return self.prefix + name

    def part(self) -> LoopState:
        """The part of the running event loop."""
        loop = asyncio.get_running_loop()
        part = self._parts.get(loop)
        if part is None or part.generation != generation():
            # No lock is needed: only the thread of this event loop makes its part.
            owner = self._owner or this_process(self.label)
            part = LoopState(
                self._open_backend(), world=self._world(), owner=owner, hooks=self._hooks, prefix=self.prefix
            )
            with self._lock:
                self._forget_closed_loops()
                self._parts[loop] = part
        return part

    def leave_the_parents(self) -> None:
        """Called in a forked child: its sockets are copies. Using or closing them would disturb the parent."""
        for part in self._parts.values():
            abandon = getattr(part.backend, "abandon", None)
            if abandon is not None:
                abandon()
        self._parts.clear()
        for election in self._elections:
            election.leave_the_parents()
        # Another thread of the parent may have held the lock during the fork.
        self._lock = threading.Lock()

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in self._parts if loop.is_closed()]:
            del self._parts[loop]


def _can_be_a_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= LONGEST_NAME and name.isprintable()


def _close_all() -> None:
    for client in list(_HOUSES):
        client.close()


at_end(_close_all)


@in_children
def _after_fork() -> None:
    for client in list(_HOUSES):
        client.leave_the_parents()
