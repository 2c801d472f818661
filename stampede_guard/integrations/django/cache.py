"""The cache backend: Django's own for Redis, with a flight between a miss and its `set`."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from inspect import isawaitable
from typing import Any

from asgiref.sync import SyncToAsync, sync_to_async
from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.redis import RedisCache
from django.core.signals import request_finished

from stampede_guard.api.guard import StampedeGuard
from stampede_guard.errors import StampedeError, UnsupportedValue
from stampede_guard.integrations.django.client import MISSING, Client
from stampede_guard.integrations.django.lease import Lease
from stampede_guard.integrations.django.settings import (
    FILLED,
    LIST,
    PAGE,
    CacheSettings,
    all_shared,
    shared,
    timeout_in_seconds,
)

__all__ = ["GuardedCache"]

log = logging.getLogger("stampede_guard")

_MANY = 256
_in_thread = sync_to_async(lambda function, *args: function(*args), thread_sensitive=False)


class GuardedCache(RedisCache):
    """See `stampede_guard.integrations.django`. Django makes one object per thread, or per request under ASGI.

    `OPTIONS`: `namespace`; `serializer` (a class, or "pickle" by name); `policy`, a dictionary of Policy fields such as
    `wait_timeout`; `lease_on_miss`, how keys begin whose `get` takes a lease. All others go to redis-py.
    """

    def __init__(self, server: Any, params: dict[str, Any]) -> None:
        given = CacheSettings.of(server, params.get("OPTIONS", {}))
        super().__init__(given.url, params | timeout_in_seconds(params))
        self._leased = given.leased
        self._shared = shared(given)
        self._mine: list[Lease] = []

    @property
    def guard(self) -> StampedeGuard:
        return self._shared.guard

    @property
    def _cache(self) -> Client:
        return self._shared.client

    # --- get ---------------------------------------------------------------------------------------

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        full = self.make_and_validate_key(key, version=version)
        value = self._cache.get(full, MISSING)
        if value is MISSING and self._is_leased(key) and (lease := self._lease_of_thread(full)) is not None:
            try:
                lease.enter()
                self._entered(lease)
            except StampedeError as error:
                _tell(error)
            value = lease.value
        return default if value is MISSING else value

    async def aget(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        full = self.make_and_validate_key(key, version=version)
        value = await _in_thread(self._cache.get, full, MISSING)
        if value is MISSING and self._is_leased(key) and (lease := self._lease(full)) is not None:
            try:
                await lease.aenter(_in_thread)
                self._entered(lease)
            except StampedeError as error:
                _tell(error)
            value = lease.value
        return default if value is MISSING else value

    def get_or_set(
        self, key: Any, default: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> Any:
        full = self.make_and_validate_key(key, version=version)
        value = self._cache.get(full, MISSING)
        lease = self._lease_of_thread(full) if value is MISSING and callable(default) else None
        if value is MISSING and lease is not None:
            lease.enter()
            value = self._led(lease, default, timeout) if lease.leading else lease.value
        if value is MISSING:
            return self._unled(full, default() if callable(default) else default, timeout, default)
        return value

    async def aget_or_set(
        self, key: Any, default: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> Any:
        """As in Django, and `default` may be a coroutine function."""
        full = self.make_and_validate_key(key, version=version)
        value = await _in_thread(self._cache.get, full, MISSING)
        lease = self._lease(full) if value is MISSING else None
        if value is MISSING and lease is not None:
            await lease.aenter(_in_thread)
            value = lease.value
        if value is not MISSING:
            return value
        leading = lease if lease is not None and lease.leading else None
        try:
            self._mine += [leading] if leading else []
            made = default() if callable(default) else default
            made = await made if isawaitable(made) else made
        except BaseException as error:
            if leading is not None:
                await _in_thread(leading.fail, error)
            raise
        finally:
            if leading is not None:
                self._forget(leading)
        if leading is not None:
            try:
                return await _in_thread(self._led, leading, lambda: made, timeout, default)
            except asyncio.CancelledError:
                leading.abandon()
                raise
        return await _in_thread(self._unled, full, made, timeout, default)

    def _led(self, lease: Lease, default: Callable[[], Any], timeout: Any, whose: Any = None) -> Any:
        self._mine.append(lease)
        try:
            value = default()
            data, seconds = self._encoded(value, whose or default), self.get_backend_timeout(timeout)
        except BaseException as error:
            lease.fail(error)
            raise
        finally:
            self._forget(lease)
        if data is None:
            lease.finish()
            return value
        if lease.is_over:
            lease.withdraw()
            self._cache.fill(lease.key, value, seconds, new=True)
        else:
            lease.settle(data, seconds)
        return self._cache.decode(data)

    def _unled(self, full: str, value: Any, timeout: Any, whose: Any) -> Any:
        """As Django does it: `add`, and then read what is stored."""
        if self._encoded(value, whose) is None:
            return value
        self._cache.fill(full, value, self.get_backend_timeout(timeout), new=True)
        return self._cache.get(full, value)

    def _encoded(self, value: Any, whose: Any) -> bytes | None:
        """None if it cannot be stored. The caller then gets its own value, and the log has the error."""
        try:
            return self._cache.encode(value)
        except UnsupportedValue as error:
            self._cache.report(error, whose)
            return None

    # --- set ---------------------------------------------------------------------------------------

    def set(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        full = self.make_and_validate_key(key, version=version)
        lease, seconds = self._lease_before(full), self.get_backend_timeout(timeout)
        if lease is not None and lease.is_over:
            self._forget(lease)
            lease.withdraw()
            lease = None
        if lease is None:
            fills = isinstance(key, str) and key.startswith(FILLED)
            (self._cache.fill if fills else self._cache.set)(full, value, seconds)
            # Waiters of a flight of another caller need not wait for it. What that caller sets is older.
            if (other := self._cache.held.pop(full, None)) is not None:
                other.withdraw()
        elif key.startswith(LIST):
            lease.keep(self._cache.encode(value), seconds)
        else:
            data = self._cache.encode(value)
            self._forget(lease)
            lease.settle(data, seconds)
        if isinstance(key, str) and key.startswith(PAGE):
            for kept in [one for one in self._of_request() if one.kept is not None]:
                self._forget(kept)
                kept.finish()

    def add(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        self._leave([self.make_key(key, version=version)])
        return bool(super().add(key, value, timeout=timeout, version=version))

    def delete(self, key: Any, version: int | None = None) -> bool:
        self._leave([self.make_key(key, version=version)])
        return bool(super().delete(key, version=version))

    def set_many(self, data: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> list[Any]:
        self._leave([self.make_key(key, version=version) for key in data])
        return list(super().set_many(data, timeout=timeout, version=version))

    def delete_many(self, keys: Any, version: int | None = None) -> None:
        keys = list(keys)
        self._leave([self.make_key(key, version=version) for key in keys])
        super().delete_many(keys, version=version)

    def clear(self) -> bool:
        self._leave([lease.key for lease in self._of_request()])
        return bool(super().clear())

    def close(self, **kwargs: Any) -> None:
        """Django calls it at the end of each request. What was not set by now will not be."""
        for lease in self._of_request():
            self._forget(lease)
            lease.finish()

    # --- leases --------------------------------------------------------------------------------------

    def _is_leased(self, key: Any) -> bool:
        if not isinstance(key, str) or not key.startswith(self._leased):
            return False
        if key.startswith(PAGE) and ".HEAD." in key:
            # A HEAD request asked for the page of GET before, and will not store it.
            self._leave([lease.key for lease in self._of_request() if PAGE in lease.key])
            return False
        return True

    def _lease(self, full: str) -> Lease | None:
        """None if this caller computes the key already: it would wait for itself."""
        if any(lease.key == full and lease.caller == _caller() for lease in self._mine):
            return None
        return Lease(self.guard, self._cache, full, _caller(), _request())

    def _lease_of_thread(self, full: str) -> Lease | None:
        """None on an event loop, too: a plain call that waits there would stop the task for which it waits."""
        return None if _is_on_loop() else self._lease(full)

    def _entered(self, lease: Lease) -> None:
        if lease.leading:
            lease.awaits_set = True
            self._mine.append(lease)
            held = self._cache.held
            held[lease.key] = lease
            if max(len(held), len(self._mine)) > _MANY:
                # Outside of requests, leases may be left behind: nothing was set, and no request ends.
                for old in [one for one in (*held.copy().values(), *self._mine) if one.is_over]:
                    self._forget(old)

    def _of_request(self) -> list[Lease]:
        """Under ASGI, an object of the cache that was made before the first request serves all requests."""
        return [lease for lease in self._mine if lease.request is _request()]

    def _lease_before(self, full: str) -> Lease | None:
        """The lease that a `get` of this request took."""
        return next((one for one in self._of_request() if one.awaits_set and one.key == full), None)

    def _leave(self, keys: list[str]) -> None:
        """This caller will not end these flights. What it stores after a deletion is newer than the deletion."""
        for lease in [one for one in self._of_request() if one.key in keys]:
            self._forget(lease)
            lease.withdraw()

    def _forget(self, lease: Lease) -> None:
        _drop(self._cache.held, lease)
        with suppress(ValueError):
            self._mine.remove(lease)


def _caller() -> object:
    """One object may serve many threads and tasks, if a program keeps it."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return threading.get_ident()


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _request() -> object:
    """Django's handler for ASGI gives each request a context of this kind. Its tasks and threads inherit it."""
    return SyncToAsync.thread_sensitive_context.get(None)


def _drop(held: dict[str, Lease], lease: Lease) -> None:
    if held.get(lease.key) is lease:
        held.pop(lease.key, None)


def _finish_request(**_: Any) -> None:
    """If a client disconnects, Django cancels the task of its request, and closes only the caches of another task."""
    if (request := _request()) is None:
        return
    for _guard, client in all_shared():
        for lease in [one for one in client.held.copy().values() if one.request is request]:
            _drop(client.held, lease)
            lease.withdraw()


request_finished.connect(_finish_request, dispatch_uid="stampede_guard leases")


def _tell(error: StampedeError) -> None:
    log.warning("a flight of the cache has no value, so this caller computes: %s", error)
