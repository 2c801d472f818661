"""An operator's access to the servers of a store: one connection to each master, plain questions, plain answers.

Guards do not use it. The sessions of guards are made for speed and for the callers of one namespace.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from stampede_guard.errors import Misuse, StoreError, StoreRefused, StoreUnavailable
from stampede_guard.stores.cluster import ClusterStore
from stampede_guard.stores.connections.inboxname import INBOXES, processes_by_namespace
from stampede_guard.stores.connections.slots import Address, SlotMap, parse_slots, slot_of
from stampede_guard.stores.connections.wire import modes_keys, name_bytes
from stampede_guard.stores.console.machine import Command, Machine
from stampede_guard.stores.console.view import EntryView
from stampede_guard.stores.fleet.series import MINUTES, Series
from stampede_guard.stores.fleet.stream import HAPPENED, Happening, StreamName, from_stream, stream_name
from stampede_guard.stores.fleet.sums import FunctionSums, from_fields
from stampede_guard.stores.redis import RedisStore
from stampede_guard.stores.sentinel import SentinelStore
from stampede_guard.values.keys.explained import namespace_of

__all__ = ["Console"]

SCAN_COUNT = 1000
PAGE_COUNT = 200
"""The same for one step of a page: it shows all that a step finds."""
NAMESPACE_STEPS = 100
"""SCANs of one master in the search for namespaces."""
_KEY = re.compile(rb"\{(?P<name>.+)\}:[verlwf]", re.DOTALL)
_CURSOR = re.compile(r"(?P<master>[0-9]{1,4})\.(?P<at>[0-9]{1,20})", re.ASCII)

T = TypeVar("T")


class Console:
    """`masters` serve the store's entries. `replicas` is known in a cluster only. Opened by `Console.open`."""

    def __init__(
        self, store: Any, kind: str, masters: dict[Any, Machine], slots: SlotMap | None = None
    ) -> None:
        self.store = store
        self.kind = kind
        self.slots = slots
        self.replicas = 0
        self.unreached: dict[str, StoreError] = {}
        """Masters that did not answer `names`, `look` or `processes`, by address, each with its last error."""
        self._masters = masters

    @classmethod
    async def open(cls, store: Any) -> Console:
        """Raises `Misuse` for a store without a server, and `StoreError` when no node gives the map of its cluster."""
        if isinstance(store, ClusterStore):
            return await _open_cluster(store)
        if isinstance(store, SentinelStore):
            return cls(store, "sentinel", {None: Machine("the master", store.connect())})
        if isinstance(store, RedisStore):
            return cls(store, "server", {None: Machine("the server", store.connect())})
        raise Misuse(
            "memory:// keeps its entries inside each process, so another process cannot look at them: "
            "give the URL of a Redis or Valkey server"
        )

    async def renew(self) -> None:
        """Read the map of a cluster again: a replica may have become a master. Connections to masters that stay are
        kept, and `unreached` becomes empty. Raises `StoreError` when no node gives the map; then nothing changes."""
        if self.slots is not None:
            answering = [place for place, one in self._masters.items() if one.address not in self.unreached]
            fresh = await _open_cluster(self.store, known=answering)
            gone = [one for place, one in self._masters.items() if place not in fresh._masters]
            self._masters = {place: self._masters.get(place, one) for place, one in fresh._masters.items()}
            self.slots, self.replicas = fresh.slots, fresh.replicas
            for machine in gone:
                await machine.aclose()
        self.unreached.clear()

    @property
    def masters(self) -> list[Machine]:
        return list(self._masters.values())

    def master_of(self, name: str) -> Machine:
        """Raises `StoreUnavailable` when no master serves the entry's slot."""
        holder = None if self.slots is None else self.slots.holder(slot_of(name))
        if holder not in self._masters:
            raise StoreUnavailable("no master of the cluster serves this entry's slot now")
        return self._masters[holder]

    def is_unreached(self, name: str) -> bool:
        """Whether the entry's master is one of the `unreached`. Raises as `master_of`."""
        return self.master_of(name).address in self.unreached

    async def look(self, names: Sequence[str], *, body_bytes: int = 0) -> list[EntryView]:
        """In the order of `names`, without the entries of masters in `unreached`.

        Raises `StoreError` when none of the masters concerned answers.
        """
        by_master: dict[Machine, list[str]] = {}
        for name in names:
            by_master.setdefault(self.master_of(name), []).append(name)
        found = await asyncio.gather(
            *(self._reached(one, one.look(part, body_bytes=body_bytes)) for one, part in by_master.items())
        )
        self._refuse_silence(by_master)
        views = {view.name: view for of_one in found for view in of_one or ()}
        return [views[name] for name in names if name in views]

    async def processes(self) -> dict[str, int]:
        """How many processes of each namespace are connected, from the inboxes that the masters know.

        Raises `StoreError` when no master answers.
        """
        asked = (self._reached(one, one.ask("PUBSUB", "CHANNELS", f"{INBOXES}*")) for one in self.masters)
        inboxes = {
            inbox.decode("utf-8", "replace") for told in await asyncio.gather(*asked) for inbox in told or ()
        }
        self._refuse_silence(self.masters)
        return processes_by_namespace(inboxes)

    async def _reached(self, master: Machine, asking: Awaitable[T]) -> T | None:
        """The answer. None when the master gives none; the master is then one of the `unreached`."""
        try:
            return await asking
        except StoreError as error:
            self.unreached[master.address] = error
            return None

    async def _in_turn(self, master: Machine, *command: str | bytes | int) -> Any:
        """As `_reached`, in a loop over masters. None at once for a master that is `unreached`.

        After the first one without an answer, all others are asked together whether they answer. So the time-outs
        of several silent masters do not add up.
        """
        if master.address in self.unreached:
            return None
        answered = await self._reached(master, master.ask(*command))
        if answered is None:
            others = [one for one in self.masters if one.address not in self.unreached]
            await asyncio.gather(*(self._reached(one, one.ask("PING")) for one in others))
        return answered

    def _refuse_silence(self, asked: Iterable[Machine]) -> None:
        """Raise the first error if none of the masters asked gave an answer: there is no partial result to show."""
        errors = [self.unreached.get(master.address) for master in asked]
        if errors and errors[0] is not None and None not in errors:
            raise errors[0]

    async def names(self, namespace: str, pattern: str = "*") -> AsyncIterator[str]:
        """Names of a namespace's entries, each once, by SCAN on every master. `pattern` is a glob for the part after
        the namespace: `*`, `?`, `[a-z]`; a backslash before a character makes it literal. A master that does not
        answer is left out and added to `unreached`. Raises `StoreError` when none answers."""
        seen: set[str] = set()
        match = b"{%b:%b}:[verlwf]" % (_literal(namespace), name_bytes(pattern))
        for master in self.masters:
            cursor: Any = 0
            while True:
                answered = await self._in_turn(master, "SCAN", cursor, "MATCH", match, "COUNT", SCAN_COUNT)
                if answered is None:
                    break
                cursor, keys = answered
                for name in _names(keys):
                    if name not in seen:
                        seen.add(name)
                        yield name
                if int(cursor) == 0:
                    break
        self._refuse_silence(self.masters)

    async def page(
        self, namespace: str, cursor: str = "", *, parts: bytes = b"vel"
    ) -> tuple[list[tuple[str, bytes]], str]:
        """One step of SCAN: names with the part of the entry that was found, and the cursor of the next step.

        `cursor`: empty at the beginning, and at the end of all masters. One name may come again in a later step. A
        master that does not answer is left out and added to `unreached`. Raises `Misuse` for a cursor of another shape.
        """
        found = _CURSOR.fullmatch(cursor or "0.0")
        if found is None or int(found["master"]) >= len(self.masters) or int(found["at"]) >= 2**64:
            raise Misuse("this place in the list is not known any more: begin again at its first page")
        place, master = int(found["master"]), self.masters[int(found["master"])]
        match = b"{%b:*}:[%b]" % (_literal(namespace), parts)
        step = await self._in_turn(master, "SCAN", found["at"], "MATCH", match, "COUNT", PAGE_COUNT)
        at, keys = step or (b"0", ())
        names = [(name, key[-1:]) for key in keys for name in _names([key])]
        if int(at):
            return names, f"{place}.{int(at)}"
        return names, f"{place + 1}.0" if place + 1 < len(self.masters) else ""

    async def namespaces(self, *, most: int = 50) -> tuple[list[str], bool]:
        """Namespaces with entries, tenants included, and whether these are all. Looks at a part of a large server."""
        found: set[str] = set()
        complete = True
        for master in self.masters:
            cursor: Any = 0
            for _ in range(NAMESPACE_STEPS):
                answered = await self._in_turn(
                    master, "SCAN", cursor, "MATCH", b"{*:*}:[verlwf]", "COUNT", SCAN_COUNT
                )
                if answered is None:
                    break
                cursor, keys = answered
                found |= {space for name in _names(keys) if (space := namespace_of(name)) is not None}
                if int(cursor) == 0 or len(found) >= most:
                    break
            complete = complete and int(cursor) == 0 and len(found) <= most
        self._refuse_silence(self.masters)
        return sorted(found)[:most], complete

    async def sums(self, namespace: str, window: float) -> dict[str, FunctionSums]:
        """What the fleet did in the last `window` seconds, by function. The current minute counts, too."""
        now = await self.now()
        last = int(now // MINUTES.seconds)
        # A process may be one minute ahead: see `Session.count`.
        slots = range(last - math.ceil(window / MINUTES.seconds) + 1, last + 2)
        return from_fields((await self.slots_of(namespace, MINUTES, slots)).values())

    async def now(self) -> float:
        """Seconds since 1970, by the clock of a server that answers. Raises `StoreError` if none does."""
        masters = sorted(self.masters, key=lambda one: one.address in self.unreached)
        for together in (masters[:1], masters[1:]):
            asked = (self._reached(one, one.ask("TIME")) for one in together)
            for answer in await asyncio.gather(*asked):
                if answer is not None:
                    return _seconds(answer)
        raise next(iter(self.unreached.values()))

    async def slots_of(
        self, namespace: str, series: Series, slots: Iterable[int]
    ) -> dict[int, Mapping[bytes, bytes]]:
        """The fields of these slots. Those of masters in `unreached` are missing."""
        by_master: dict[Machine, list[tuple[int, Command]]] = {}
        for slot in slots:
            name = series.name(namespace, slot)
            by_master.setdefault(self.master_of(name), []).append((slot, ("HGETALL", *modes_keys(name))))

        async def asked(master: Machine, part: list[tuple[int, Command]]) -> list[tuple[int, Any]]:
            told = await self._reached(master, master.ask_all([command for _, command in part])) or ()
            return [(slot, answer) for (slot, _), answer in zip(part, told, strict=False)]

        found = await asyncio.gather(*(asked(master, part) for master, part in by_master.items()))
        self._refuse_silence(by_master)
        answers = {slot: answer for part in found for slot, answer in part}
        for answer in answers.values():
            if isinstance(answer, StoreError):
                raise answer
        return {slot: _pairs(answer) for slot, answer in answers.items()}

    async def happened(
        self, namespace: str, *, since: str = "-", most: int = 1000, stream: StreamName = HAPPENED
    ) -> list[Happening]:
        """The events of the fleet while a viewer was open: the newest items of the last hour, oldest first."""
        name = stream_name(namespace, stream)
        answer = await self.master_of(name).ask("XREVRANGE", *modes_keys(name), "+", since, "COUNT", most)
        return from_stream(_pairs(fields) for _, fields in reversed(answer))

    async def agreed(self, name: str, offered: str, *, seconds: int) -> bytes:
        """The text that was offered first under this name. It is kept for `seconds` since then.

        Raises `StoreError`, also if the server did not keep it.
        """
        (key,) = modes_keys(name)
        master = self.master_of(name)
        # Not SET with NX and GET together: Redis 6.2 refuses that.
        written, found = await master.ask_all([("SET", key, offered, "NX", "EX", seconds), ("GET", key)])
        if isinstance(found, bytes):
            return found
        told = found if isinstance(found, StoreError) else written
        raise (
            told
            if isinstance(told, StoreError)
            else StoreRefused("the server does not keep what it is given")
        )

    async def kept(self, name: str) -> bytes | None:
        """What is left of an agreement. Raises `StoreError`."""
        found: bytes | None = await self.master_of(name).ask("GET", *modes_keys(name))
        return found

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for master in self.masters:
            await master.aclose()


async def _open_cluster(store: ClusterStore, *, known: Iterable[Address] = ()) -> Console:
    failure: StoreError = StoreUnavailable("no node of the cluster can be reached")
    for seed in (*known, *store.seeds):
        machine = Machine(f"{seed[0]}:{seed[1]}", store.connect(seed))
        try:
            reply = await machine.ask("CLUSTER", "SLOTS")
            slots = parse_slots(reply, asked=seed, remap=store.remap)
        except (StoreError, ValueError) as error:
            failure = error if isinstance(error, StoreError) else StoreRefused(str(error))
            continue
        finally:
            await machine.aclose()
        masters = {
            address: Machine(f"{address[0]}:{address[1]}", store.connect(address))
            for address in sorted(slots.masters)
        }
        console = Console(store, "cluster", masters, slots)
        console.replicas = len({tuple(replica[:2]) for _, _, _, *replicas in reply for replica in replicas})
        return console
    raise failure


def _seconds(time: Any) -> float:
    seconds, micros = time
    return int(seconds) + int(micros) / 1e6


def _pairs(answer: Any) -> Mapping[bytes, bytes]:
    return answer if isinstance(answer, Mapping) else dict(zip(answer[::2], answer[1::2], strict=True))


def _names(keys: Iterable[bytes]) -> Iterable[str]:
    for key in keys:
        found = _KEY.fullmatch(key)
        if found is None:
            continue
        try:
            yield found["name"].decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            # Another program's key: the names of entries are text.
            continue


def _literal(text: str) -> bytes:
    """The text as part of a glob that matches exactly this text."""
    return re.sub(rb"([\\*?\[\]])", rb"\\\1", name_bytes(text))
