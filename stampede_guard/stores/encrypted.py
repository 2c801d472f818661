"""A store whose server sees ciphertext only.

The session encrypts bodies on their way to the store and decrypts them on their way back. The guard above and the
scripts below do not notice. Wake-ups carry the published bytes, so they carry ciphertext as well. Names, lifetimes and
tokens stay readable, because the protocol needs them.

A body that cannot be decrypted becomes an empty body, which is the encoding of no value. The guard treats it like bytes
that it cannot decode: as a miss that only something newer answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import Answer, Denied, FailedRecently, Found, Granted, Message
from stampede_guard.errors import StoreError, StoreRefused
from stampede_guard.stores.fleet.series import Series
from stampede_guard.stores.fleet.stream import HAPPENED, StreamName
from stampede_guard.stores.protocol import Listener, Session, Store
from stampede_guard.stores.switch import Switch
from stampede_guard.values.encryption import Encryption

__all__ = ["EncryptedSession", "EncryptedStore"]

log = logging.getLogger("stampede_guard")

NOTHING = b""


class EncryptedStore:
    def __init__(self, store: Store, encryption: Encryption) -> None:
        self.shared = store.shared
        self.inner = store
        self._encryption = encryption
        self.place: str = getattr(store, "place", "")
        if hasattr(store, "clock"):
            self.clock = store.clock

    def open_session(self, listener: Listener, *, namespace: str = "") -> EncryptedSession:
        bodies = _Bodies(self._encryption)
        inner = self.inner.open_session(_Decrypting(listener, bodies), namespace=namespace)
        return EncryptedSession(inner, bodies)


class _Bodies:
    """The encryption of one session. Its warnings never contain a value or the text of a user's exception."""

    def __init__(self, encryption: Encryption) -> None:
        self._encryption = encryption
        self._warned = False

    def sealed(self, body: bytes, name: str) -> bytes:
        """Raises `StoreRefused` on failure: the value is then not stored, rather than stored as plain text."""
        try:
            made: object = self._encryption.encrypt(body, _encodable(name))
        except Exception as error:
            raise StoreRefused(f"encrypt() raised {type(error).__name__}, so nothing is stored") from error
        if not isinstance(made, bytes):
            raise StoreRefused(
                f"encrypt() returned a {type(made).__name__} and not bytes, so nothing is stored"
            )
        return made

    def opened(self, body: bytes, name: str) -> bytes:
        try:
            made: object = self._encryption.decrypt(body, _encodable(name))
            if isinstance(made, bytes):
                return made
            why = f"decrypt() returned a {type(made).__name__} and not bytes"
        except Exception as error:
            why = f"decrypt() raised {type(error).__name__}"
        if not self._warned:
            self._warned = True
            log.warning("a stored value cannot be decrypted and counts as a miss: %s (logged once)", why)
        return NOTHING

    def reading(self, reading: Reading, name: str) -> Reading:
        return reading._replace(body=self.opened(reading.body, name))


def _encodable(name: str) -> str:
    """The name. With half of a surrogate pair it becomes hexadecimal, so that `key.encode()` always works.

    No two entries become the same. A name contains the namespace's colon, and hexadecimal contains none.
    """
    if name.isascii():
        return name
    try:
        name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogatepass").hex()
    return name


class EncryptedSession:
    """See `stores.protocol.Session`."""

    def __init__(self, inner: Session, bodies: _Bodies) -> None:
        self._inner = inner
        self._bodies = bodies
        # Callers of one loop turn share a reading and are recognised by its identity. So they share the decrypted one.
        self._sealed: Reading | None = None
        self._opened: Reading | None = None

    @property
    def away(self) -> bool:
        return self._inner.away

    @property
    def trouble(self) -> StoreError | None:
        return getattr(self._inner, "trouble", None)

    def away_for(self, name: str) -> bool:
        return self._inner.away_for(name)

    def hears_changes(self, name: str) -> bool:
        return self._inner.hears_changes(name)

    def read(self, name: str) -> asyncio.Future[Reading | None]:
        asked = self._inner.read(name)
        future: asyncio.Future[Reading | None] = asked.get_loop().create_future()

        def answered(asked: asyncio.Future[Reading | None]) -> None:
            if asked.cancelled():
                future.cancel()
            elif (error := asked.exception()) is not None:
                if not future.done():
                    future.set_exception(error)
            elif not future.done():
                future.set_result(self._open(asked.result(), name))

        asked.add_done_callback(answered)
        future.add_done_callback(lambda future: asked.cancel() if future.cancelled() else None)
        return future

    def _open(self, reading: Reading | None, name: str) -> Reading | None:
        if reading is None or reading is not self._sealed:
            opened = None if reading is None else self._bodies.reading(reading, name)
            self._sealed, self._opened = reading, opened
        return self._opened

    # The other arguments are passed on unchanged: they concern only the guard and the store.

    async def acquire(self, name: str, **asked: Any) -> Answer:
        answer = await self._inner.acquire(name, **asked)
        match answer:
            case Found(reading):
                return Found(self._bodies.reading(reading, name))
            case FailedRecently(body, token, remaining_ms):
                return FailedRecently(self._bodies.opened(body, name), token, remaining_ms)
            case _:
                return answer

    async def renew(self, name: str, **asked: Any) -> bool:
        return await self._inner.renew(name, **asked)

    async def publish(self, name: str, *, body: bytes, **asked: Any) -> bool:
        return await self._inner.publish(name, body=self._bodies.sealed(body, name), **asked)

    async def invalidate(self, name: str, **asked: Any) -> int:
        return await self._inner.invalidate(name, **asked)

    async def admits(self, name: str, grant: Granted) -> bool:
        return await self._inner.admits(name, grant)

    async def stamp(self, name: str, **asked: Any) -> Granted:
        return await self._inner.stamp(name, **asked)

    async def fence(self, name: str) -> tuple[str, int] | None:
        return await self._inner.fence(name)

    async def release(self, name: str, **asked: Any) -> bool:
        return await self._inner.release(name, **asked)

    async def fallback(self, name: str, **asked: Any) -> Found | Granted | Denied:
        answer = await self._inner.fallback(name, **asked)
        return Found(self._bodies.reading(answer.reading, name)) if isinstance(answer, Found) else answer

    # A tag's version is random and reveals nothing, so it is stored unencrypted.

    def read_tag(self, name: str) -> asyncio.Future[Reading | None]:
        return self._inner.read_tag(name)

    async def ensure_tag(self, name: str, **asked: Any) -> bytes:
        return await self._inner.ensure_tag(name, **asked)

    async def drop_tag(self, name: str) -> None:
        await self._inner.drop_tag(name)

    async def switches(self, namespace: str) -> Mapping[str, Switch]:
        return await self._inner.switches(namespace)

    async def switch(self, namespace: str, title: str, switch: Switch | None) -> int:
        return await self._inner.switch(namespace, title, switch)

    async def count(self, namespace: str, series: Series, slot: int, numbers: Mapping[str, int]) -> int:
        return await self._inner.count(namespace, series, slot, numbers)

    async def tell(
        self, namespace: str, happenings: Sequence[tuple[int, str]], *, stream: StreamName = HAPPENED
    ) -> None:
        await self._inner.tell(namespace, happenings, stream=stream)

    def forget(self, name: str, *, flight: str) -> None:
        self._inner.forget(name, flight=flight)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def abandon(self) -> None:
        self._inner.abandon()


class _Decrypting:
    """Decrypts the bodies that wake-ups carry. See `stores.protocol.Listener`."""

    def __init__(self, listener: Listener, bodies: _Bodies) -> None:
        self._bodies = bodies
        self._listener = listener
        self.changed = listener.changed
        self.gap = listener.gap
        self.breaker_changed = listener.breaker_changed
        self.not_kept = getattr(listener, "not_kept", lambda name, error: None)
        self.answered_within = getattr(listener, "answered_within", None)

    def heard(self, name: str, message: Message) -> None:
        if message.reading is not None:
            message = message._replace(reading=self._bodies.reading(message.reading, name))
        elif message.kind == "failure":
            message = message._replace(body=self._bodies.opened(message.body, name))
        self._listener.heard(name, message)
