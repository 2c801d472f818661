"""Django's own Redis client, with names of one namespace, and with the marks of flights."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from django.core.cache.backends.redis import RedisCacheClient

from stampede_guard.errors import UnsupportedValue
from stampede_guard.integrations.django.bridge import wait

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = ["MISSING", "Client", "flight_key"]

log = logging.getLogger("stampede_guard")

MISSING: Any = object()
AWAY_SECONDS = 1.0
LINGER_MS = 3000
"""How long a mark outlives its flight: longer than the guard keeps the value for late waiters. So a deletion finds the
mark, and drops that value, too."""
_BATCH = 500
_INCR = """
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
return redis.call('INCRBY', KEYS[1], ARGV[1])
"""
_STORE = """
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
if ARGV[3] == '' then redis.call('SET', KEYS[1], ARGV[2])
elseif tonumber(ARGV[3]) > 0 then redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3]) end
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 1
"""


def flight_key(key: str) -> str:
    """The guard's key of a flight. It is hashed, because logs and metrics of the guard may show it."""
    return "django:" + hashlib.blake2b(key.encode(), digest_size=20).hexdigest()


class Client(RedisCacheClient):
    """Shared by all threads. `held`: the leases of this process that wait for a `set` of their key."""

    def __init__(self, servers: list[str], *, guard: StampedeGuard, **options: Any) -> None:
        super().__init__(servers, **options)
        self.held: dict[str, Any] = {}
        self._guard = guard
        # No namespace contains these two signs, so none is the beginning of another.
        self._own, self._mark = f"django:{guard.namespace}/", f"django:{guard.namespace}!"
        self._away_until = 0.0
        self._reported: set[str] = set()

    def encode(self, value: Any) -> bytes:
        data = self._serializer.dumps(value)
        return data if isinstance(data, bytes) else str(data).encode()

    def decode(self, data: bytes, default: Any = MISSING) -> Any:
        try:
            return self._serializer.loads(data)
        except Exception as error:
            log.warning("a cached value cannot be read, which counts as a miss: %s", type(error).__name__)
            return default

    def report(self, error: UnsupportedValue, whose: Any) -> None:
        """One ERROR for each type of value and function. Not with the key, which may be a secret."""
        named = getattr(whose, "__qualname__", None)
        text = f"{error} (from {whose.__module__}.{named}())" if named else str(error)
        if text not in self._reported and len(self._reported) < _BATCH:
            self._reported.add(text)
            log.error("served, but not stored: %s", text)

    # --- reads: Redis away is a miss ---------------------------------------------------------------

    def get(self, key: str, default: Any = None) -> Any:
        data = self._forgiving(lambda: self.get_client().get(self._own + key))
        return default if data is None else self.decode(data, default)

    def get_many(self, keys: Iterable[str]) -> dict[str, Any]:
        names = {self._own + key: key for key in keys}
        found = self._forgiving(lambda: self.get_client().mget(list(names))) if names else None
        decoded = {
            key: self.decode(data)
            for key, data in zip(names.values(), found or (), strict=False)
            if data is not None
        }
        return {key: value for key, value in decoded.items() if value is not MISSING}

    def has_key(self, key: str) -> bool:
        return bool(self._forgiving(lambda: RedisCacheClient.has_key(self, self._own + key)))

    # --- writes: each one removes the mark of a flight under way -------------------------------------

    def set(self, key: str, value: Any, timeout: int | None) -> None:
        if timeout == 0:
            self.delete(key)
        else:
            data = self.encode(value)
            self._fencing([key], lambda pipe: pipe.set(self._own + key, data, ex=timeout))

    def add(self, key: str, value: Any, timeout: int | None) -> bool:
        data = self.encode(value)
        if timeout == 0:
            return not self.has_key(key)
        return bool(self._fencing([key], lambda pipe: pipe.set(self._own + key, data, nx=True, ex=timeout)))

    def fill(self, key: str, value: Any, timeout: int | None, *, new: bool = False) -> None:
        """Store a value that was computed after a miss. If Redis is away or full, its caller has it all the same.

        A change that is lost would leave a wrong value. A computed value that is lost is computed again.
        """
        write = self.add if new else self.set
        self._forgiving(lambda: write(key, value, timeout), refusals=True)

    def touch(self, key: str, timeout: int | None) -> bool:
        return bool(super().touch(self._own + key, timeout)) or (timeout is None and self.has_key(key))

    def incr(self, key: str, delta: int) -> int:
        # In one step, so that an entry that expires in between does not come back without a lifetime.
        found: Any = self.get_client(key, write=True).eval(_INCR, 1, self._own + key, delta)
        if found is None:
            raise ValueError(f"Key {key!r} not found.")
        return int(found)

    def delete(self, key: str) -> bool:
        return bool(self._fencing([key], lambda pipe: pipe.delete(self._own + key)))

    def set_many(self, data: dict[str, Any], timeout: int | None) -> None:
        encoded = {self._own + key: self.encode(value) for key, value in data.items()}

        def set_all(pipe: Any) -> None:
            pipe.mset(encoded)
            for name in encoded if timeout is not None else ():
                pipe.expire(name, timeout)

        self._fencing(list(data), set_all)

    def delete_many(self, keys: Iterable[str]) -> None:
        self._delete_all(list(keys))

    def _delete_all(self, keys: list[str]) -> None:
        self._fencing(keys, lambda pipe: pipe.delete(*(self._own + key for key in keys)))

    def clear(self) -> bool:
        """Only this namespace. Django's own backend empties the whole database, with whatever else is in it."""
        for prefix in (self._own, self._mark):
            for names in self._batches(prefix):
                self._delete_all([name.removeprefix(prefix) for name in names])
        return True

    def _batches(self, prefix: str) -> Iterator[list[str]]:
        names: list[str] = []
        for name in self.get_client().scan_iter(match=f"{prefix}*", count=_BATCH):
            names.append(name.decode() if isinstance(name, bytes) else name)
            if len(names) == _BATCH:
                yield names
                names = []
        if names:
            yield names

    def _fencing(self, keys: list[str], write: Callable[[Any], Any]) -> Any:
        """The result of the write. Flights of these keys store nothing, and no later caller gets their values."""
        pipe = self.get_client(write=True).pipeline()
        write(pipe)
        for key in keys:
            pipe.delete(self._mark + key)
        first, *others = pipe.execute()
        fenced = [key for key, marks in zip(keys, others[-len(keys) :], strict=True) if marks]
        for key in fenced:
            wait(partial(self._guard.invalidate, flight_key(key), type=bytes))
        return first

    # --- flights ---------------------------------------------------------------------------------

    def begin(self, key: str, mark: str, seconds: float) -> bytes | None:
        """Put the mark of a flight, and read the key again."""
        pipe = self.get_client().pipeline()
        pipe.set(self._mark + key, mark, px=int(seconds * 1000))
        pipe.get(self._own + key)
        done = self._forgiving(pipe.execute, refusals=True)
        return done[1] if done else None

    def store(self, key: str, mark: str, data: bytes, timeout: int | None) -> bool:
        """Whether the value of a flight was stored. It is not if the mark is gone, or Redis is away."""
        names, lifetime = (self._own + key, self._mark + key), "" if timeout is None else timeout
        store = self.get_client().eval
        arguments = (*names, mark, data, lifetime, LINGER_MS)
        return bool(self._forgiving(lambda: store(_STORE, 2, *arguments), refusals=True))

    def _forgiving(self, work: Callable[[], Any], *, refusals: bool = False) -> Any:
        """The result of `work()`. None if Redis is away; then this process does not ask again for a moment.

        With `refusals`, also None if Redis refuses: it has no memory left, or has become a replica.
        """
        errors = self._lib.exceptions
        if time.monotonic() < self._away_until:
            return None
        try:
            return work()
        except (errors.ConnectionError, errors.TimeoutError) as error:
            self._away_until = time.monotonic() + AWAY_SECONDS
            log.warning("the cache does not reach Redis: %s", error)
            return None
        except errors.RedisError as error:
            if not refusals:
                raise
            log.warning("Redis refuses a flight of the cache: %s", error)
            return None
