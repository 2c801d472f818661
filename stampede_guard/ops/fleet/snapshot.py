"""The state of a fleet over some slots of five seconds: pure, from what the processes have published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stampede_guard.ops.fleet.masking import masked_key
from stampede_guard.ops.fleet.wording import counted
from stampede_guard.stores.fleet.series import WATCHED
from stampede_guard.stores.fleet.sums import FunctionSums, from_fields
from stampede_guard.stores.switch import Switch

__all__ = ["Adding", "HotEntry", "Snapshot", "snapshot"]

MOST_HOT = 20
GAUGES = ("processes", "in_flight", "l1_bytes", "ok", "away", "refused", "full", "left_out", "leaving_out")


@dataclass(frozen=True, slots=True)
class HotEntry:
    """`key`: the entry's name, or its hash if names are not shown. `calls` is too high by a small part at most."""

    function: str
    key: str
    calls: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`seconds`: the time that `functions` and `hottest` cover. The gauges are those of the newest slot.

    `processes`: how many published. `ok`, `away`, `refused`, `full`: for how many of them the store is in that state.
    `in_flight`: computations and waits under way. `l1_bytes`: of copies kept in processes. `hot`: calls of all entries
    that were published, by function and key. `modes`: in how many processes each function is in which mode, from the
    newest slot in which one said so. `left_out`: functions that a process has too many to name, on average of those
    that have too many.
    """

    seconds: float
    functions: Mapping[str, FunctionSums]
    hottest: Sequence[HotEntry]
    processes: int
    in_flight: int
    l1_bytes: int
    ok: int
    away: int
    refused: int
    full: int
    hot: Mapping[tuple[str, str], int] = field(default_factory=dict)
    modes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    left_out: int = 0

    def hottest_of(self, function: str) -> list[HotEntry]:
        """The hottest entries of one function, also if those of others are hotter."""
        return _most(Counter({mark: calls for mark, calls in self.hot.items() if mark[0] == function}))

    def mode_of(self, function: str) -> str:
        """`on`, or `on in 3, shadow in 1` where processes differ; empty if none has said it."""
        modes = sorted(self.modes.get(function, {}).items(), key=lambda item: (-item[1], item[0]))
        return modes[0][0] if len(modes) == 1 else ", ".join(f"{mode} in {count}" for mode, count in modes)

    @property
    def all(self) -> FunctionSums:
        """The sums of all functions."""
        total = FunctionSums()
        for row in self.functions.values():
            total += row
        return total

    def rate(self, number: float) -> float:
        """Per second."""
        return number / self.seconds if self.seconds else 0.0

    @property
    def troubles(self) -> list[str]:
        """What is wrong now, as sentences. Empty if nothing is known to be wrong."""
        total = self.all
        found = [
            f"{count} of {counted(self.processes, 'process', 'processes')}: the store {what}"
            for count, what in (
                (self.away, "is away"),
                (self.refused, "refuses their commands"),
                (self.full, "refuses to write"),
            )
            if count
        ]
        for count, one, many in (
            (total.takeovers, "holder disappeared and was replaced", "holders disappeared and were replaced"),
            (
                total.fallbacks,
                "fallback computation beside a slow holder",
                "fallback computations beside a slow holder",
            ),
            (total.timeouts, "time limit passed", "time limits passed"),
        ):
            if count:
                found.append(counted(count, one, many))
        found += [
            f"{title}: {row.failed} of {counted(row.computations, 'computation')} failed"
            for title, row in sorted(self.functions.items())
            if row.failed
        ]
        return found


def snapshot(slots: Mapping[int, Mapping[bytes, bytes]], *, shows_names: bool = False) -> Snapshot:
    """From the fields of complete slots, by number. Ignores what other programs have written.

    `shows_names`: names of the hottest entries, where processes publish them; else hashes.
    """
    newest = slots[max(slots)] if slots else {}
    hot = _hot(slots.values(), shows_names=shows_names)
    gauges = {name: _number(newest.get(f"{name}:".encode())) for name in GAUGES}
    return Snapshot(
        seconds=float(len(slots) * WATCHED.seconds),
        functions={title: row for title, row in from_fields(slots.values()).items() if title},
        hottest=_most(hot),
        processes=gauges["processes"],
        in_flight=gauges["in_flight"],
        l1_bytes=gauges["l1_bytes"],
        ok=gauges["ok"],
        away=gauges["away"],
        refused=gauges["refused"],
        full=gauges["full"],
        hot=hot,
        left_out=-(-gauges["left_out"] // gauges["leaving_out"]) if gauges["leaving_out"] else 0,
        modes={title: modes for slot in sorted(slots) for title, modes in _modes(slots[slot]).items()},
    )


class Adding:
    """Adds snapshots of single slots up, step by step: all at once would hold an event loop up. Oldest slot first."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._functions: dict[str, FunctionSums] = {}
        self._hot: Counter[tuple[str, str]] = Counter()
        self._modes: dict[str, Mapping[str, int]] = {}
        self._newest = snapshot({})

    def add(self, slot: Snapshot) -> None:
        self._newest = slot
        self._seconds += slot.seconds
        for title, row in slot.functions.items():
            total = self._functions.setdefault(title, FunctionSums())
            total += row
        for mark, calls in slot.hot.items():
            self._hot[mark] += calls
        self._modes.update(slot.modes)

    @property
    def sum(self) -> Snapshot:
        """As `snapshot` of all these slots."""
        hottest = _most(self._hot)
        return replace(
            self._newest,
            seconds=self._seconds,
            functions=self._functions,
            hottest=hottest,
            hot=self._hot.copy(),
            modes=dict(self._modes),
        )


def _hot(slots: Iterable[Mapping[bytes, bytes]], *, shows_names: bool) -> Counter[tuple[str, str]]:
    calls: Counter[tuple[str, str]] = Counter()
    for fields in slots:
        for name, number in fields.items():
            if name.startswith(b"hot:"):
                function, line_end, key = name[4:].decode("utf-8", "replace").partition("\n")
                if line_end:
                    calls[function, key if shows_names else masked_key(key)] += _number(number)
    return calls


def _modes(fields: Mapping[bytes, bytes]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for name, number in fields.items():
        if name.startswith(b"runs:"):
            title, _, mode = name[5:].decode("utf-8", "replace").partition("\n")
            if (switch := Switch.parse(mode)) is not None and (processes := _number(number)):
                found.setdefault(title, {})[str(switch)] = processes
    return found


def _most(calls: Counter[tuple[str, str]]) -> list[HotEntry]:
    return [HotEntry(function, key, count) for (function, key), count in calls.most_common(MOST_HOT)]


def _number(found: bytes | None) -> int:
    return int(found) if found is not None and found.isdigit() and len(found) < 19 else 0
