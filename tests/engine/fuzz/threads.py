"""Real threads: plain callers and event loops of two guards on one store. `python -m tests.engine.fuzz threads 0-999`.

What threads do is drawn, and when they do it is not: a seed does not repeat a run. No time-out ends here and nothing
fails, so the laws are strict.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from stampede_guard import StampedeGuard
from stampede_guard.errors import ComputeFailed, Overloaded, WaitTimeout
from stampede_guard.stores.memory import MemoryStore
from tests.engine.fuzz.journal import number_in, text_of
from tests.engine.fuzz.plainfaces import PLAIN_KEYS, PlainFaces

__all__ = ["threads_of"]

LONGEST = 60.0
"""Real seconds after which a thread that still runs waits for ever."""
KEYS = ("k", "l", *PLAIN_KEYS)
KINDS = ("get",) * 8 + ("single",) * 2 + ("peek",) * 4 + ("refresh", "invalidate", "invalidate", "set")
FIELDS: dict[str, Any] = {"ttl": 100.0, "lease_ttl": 60.0, "wait_timeout": 50.0}


class Boom(Exception):
    """The error of a computation."""


@dataclass
class Made:
    key: str
    version: int
    began: int
    ended: int = 2**62
    is_set: bool = False


@dataclass
class Action:
    kind: str
    guard: str
    key: str
    pause: float
    work: float


class Threads:
    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)
        self._steps = itertools.count(1)
        self._lock = threading.Lock()
        self._versions = dict.fromkeys(KEYS, 1)
        self._made: dict[int, Made] = {}
        self._changes: list[tuple[str, str, int, int]] = []
        """Guard, key, version, and when its invalidation had returned."""
        self._fields = FIELDS | {"l1_ttl": self._chance.choice((0.0, 50.0))}
        self.wrong: list[str] = []
        self._memory = MemoryStore()
        if self._chance.random() < 0.5:
            # Messages about changes are lost. The threads of one guard do not need them.
            setattr(self._memory, "tell_watchers", lambda name, fence: None)  # noqa: B010 - mypy refuses to assign it
        labels = ("A", "B")[: self._chance.choice((1, 1, 2))]
        self._guards = {label: StampedeGuard(self._memory, namespace="t") for label in labels}
        self._fails = self._chance.choice((0, 0, 3))
        """One of so many computations fails."""
        self._closes = self._chance.random() < 0.3
        """Whether guards are closed while they are used. They can be used again."""
        self._plain_ones = {label: self._faces(guard) for label, guard in self._guards.items()}

    def _faces(self, guard: StampedeGuard) -> PlainFaces:
        return PlainFaces(
            guard,
            self._fields,
            work=self._chance.choice((0.0, 0.0002, 0.002)),
            begin=self._begin,
            end=self._end,
            wrong=self.wrong,
        )

    def run(self) -> list[str]:
        count = self._chance.randint(2, 5)
        begin, self._over = threading.Barrier(count), threading.Barrier(count)
        threads = [
            threading.Thread(
                target=self._thread, args=(self._drawn(), self._chance.random() < 0.5, begin), daemon=True
            )
            for _ in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONGEST)
            if thread.is_alive():
                self.wrong.append(f"{thread.name} never ends")
        for guard in self._guards.values():
            guard.close()
        self._one_at_a_time()
        for name in self._memory.names():
            entry = self._memory.look(name)
            if entry.lease is not None or entry.slots:
                self.wrong.append(f"{name} is leased for ever: {entry}")
        if self._memory._subscribers:
            self.wrong.append("somebody still listens")
        return self.wrong

    def _drawn(self) -> list[Action]:
        chance, labels = self._chance, list(self._guards)
        return [
            Action(
                "close" if self._closes and chance.random() < 0.1 else chance.choice(KINDS),
                chance.choice(labels),
                chance.choice((KEYS[:1], KEYS[:2], KEYS[2:], KEYS)[chance.randrange(4)]),
                chance.choice((0.0, 0.0, 0.0005)),
                chance.choice((0.0, 0.0002, 0.002)),
            )
            for _ in range(chance.randint(2, 16))
        ]

    def _thread(self, actions: list[Action], in_loop: bool, begin: threading.Barrier) -> None:
        try:
            begin.wait()
            if in_loop:
                asyncio.run(self._loop(actions))
            else:
                for action in actions:
                    time.sleep(action.pause)
                    self._judged(action, self._plain(action))
                self._over.wait()
        except BaseException as error:
            self._over.abort()
            self.wrong.append(f"a thread ends with {error!r}")

    async def _loop(self, actions: list[Action]) -> None:
        async def act(action: Action) -> None:
            await asyncio.sleep(action.pause)
            check = self._asks(action)
            try:
                answer = await self._awaited(action)
            except (Boom, ComputeFailed) as error:
                answer = error
            except (Overloaded, WaitTimeout):
                if not self._closes:
                    raise
                return
            check(answer)

        # Some at once: an event loop has many callers.
        await asyncio.gather(*(act(action) for action in actions[::2]))
        for action in actions[1::2]:
            await act(action)
        # The end of one event loop is also the end of what plain callers use.
        await asyncio.to_thread(self._over.wait)
        for guard in self._guards.values():
            await guard.aclose()

    # --- one action -----------------------------------------------------------------------------------

    def _judged(self, action: Action, call: Callable[[], Any]) -> None:
        check = self._asks(action)
        try:
            answer = call()
        except (Boom, ComputeFailed) as error:
            answer = error
        except (Overloaded, WaitTimeout):
            if not self._closes:
                raise
            return
        check(answer)

    def _asks(self, action: Action) -> Callable[[Any], None]:
        """Called before an action. Give the result of the action to the function that it returns."""
        if action.kind == "close":
            return lambda answer: None
        before = next(self._steps)
        if action.kind in ("invalidate", "set"):
            with self._lock:
                self._versions[action.key] += 1
                version = self._versions[action.key]

            def changed(answer: Any) -> None:
                if answer not in ("done", "stored", "superseded"):
                    self.wrong.append(f"{action.kind} is {answer!r}")
                if action.kind == "invalidate":
                    self._changes.append((action.guard, action.key, version, next(self._steps)))

            return changed

        # Copies of another guard may live for `l1_ttl`.
        newest = max(
            (
                version
                for guard, key, version, ended in list(self._changes)
                if key == action.key
                and ended < before
                and (guard == action.guard or not self._fields["l1_ttl"])
            ),
            default=0,
        )

        def served(value: Any) -> None:
            made = self._made.get(number_in(value))
            if made is None:
                if action.kind != "peek":
                    self.wrong.append(f"{action} gets {value!r}")
            elif made.key != action.key:
                self.wrong.append(f"{action} gets {made}")
            elif made.version < newest and not made.is_set:
                self.wrong.append(f"{action} gets {made} after the invalidation of {newest}")
            elif isinstance(value, Exception):
                return  # an error is remembered for `error_ttl`, also for a refresh
            elif action.kind == "refresh" and not made.is_set and made.began < before:
                self.wrong.append(f"{action} gets {made}, which began before it at {before}")

        return served

    def _begin(self, key: str, *, is_set: bool = False) -> int:
        step = next(self._steps)
        self._made[step] = Made(key, self._versions[key], step, is_set=is_set)
        return step

    def _end(self, number: int) -> str:
        """The value. Raises the error of a computation that fails."""
        made = self._made[number]
        made.ended = next(self._steps)
        text = text_of(number, made.version)
        if self._fails and number % self._fails == 0 and not made.is_set:
            raise Boom(text)
        return text

    def _set(self, key: str) -> str:
        return self._end(self._begin(key, is_set=True))

    def _plain(self, action: Action) -> Callable[[], Any]:
        if action.kind == "close":
            return self._guards[action.guard].close
        if action.key in PLAIN_KEYS:
            faces = self._plain_ones[action.guard]
            return lambda: faces.call(action.kind, action.key, lambda: self._set(action.key))
        guard, l1_ttl = self._guards[action.guard].sync, self._fields["l1_ttl"]

        def compute() -> str:
            number = self._begin(action.key)
            time.sleep(action.work)
            return self._end(number)

        def block() -> Any:
            with guard.single(action.key, **self._fields) as entry:
                if entry.missing:
                    entry.set(compute())
                return entry.value

        match action.kind:
            case "get":
                return lambda: guard.get_or_compute(action.key, compute, **self._fields)
            case "single":
                return block
            case "refresh":
                return lambda: guard.refresh(action.key, compute, **self._fields)
            case "invalidate":
                return lambda: guard.invalidate(action.key)
            case "set":
                return lambda: guard.set(action.key, self._set(action.key), ttl=100.0, l1_ttl=l1_ttl)
            case _:
                return lambda: guard.get(action.key, l1_ttl=l1_ttl)

    async def _awaited(self, action: Action) -> Any:
        if action.kind == "close":
            return await self._guards[action.guard].aclose()
        if action.key in PLAIN_KEYS:
            # It blocks its event loop, as any slow plain function does.
            return self._plain(action)()
        guard, l1_ttl = self._guards[action.guard], self._fields["l1_ttl"]

        async def compute() -> str:
            number = self._begin(action.key)
            await asyncio.sleep(action.work)
            return self._end(number)

        match action.kind:
            case "get":
                return await guard.get_or_compute(action.key, compute, **self._fields)
            case "single":
                async with guard.single(action.key, **self._fields) as entry:
                    if entry.missing:
                        await entry.set(await compute())
                    return entry.value
            case "refresh":
                return await guard.refresh(action.key, compute, **self._fields)
            case "invalidate":
                return await guard.invalidate(action.key)
            case "set":
                return await guard.set(action.key, self._set(action.key), ttl=100.0, l1_ttl=l1_ttl)
            case _:
                return await guard.get(action.key, l1_ttl=l1_ttl)

    # --- afterwards -----------------------------------------------------------------------------------

    def _one_at_a_time(self) -> None:
        computed = sorted(
            (made for made in self._made.values() if not made.is_set), key=lambda made: made.began
        )
        for key in KEYS:
            for one, other in itertools.pairwise(made for made in computed if made.key == key):
                if other.began < one.ended:
                    self.wrong.append(f"{one} and {other} at once")


def threads_of(seed: int) -> list[str]:
    """The violations of one run."""
    return Threads(seed).run()
