"""Script calls on a lane. A script is called by its digest; a server that does not know it gets the text as well.

A call is also sent once more when a replica refuses to write. The next connection may lead to the master.

`redirect(call, error)` receives every other error answer. It returns whether it has sent the call again, to the node
that the cluster names for the keys.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from redis.exceptions import NoScriptError, ResponseError

from stampede_guard.core.entry import Reading
from stampede_guard.errors import StoreError
from stampede_guard.stores.connections.lane import LaneCall
from stampede_guard.stores.connections.replies import may_be_elsewhere, store_error
from stampede_guard.stores.connections.wire import entry_keys, malformed, parse_value, value_key

__all__ = ["CommandCall", "ReadCall", "Redirect", "Script", "ScriptCall", "probe_call"]

Redirect = Callable[[LaneCall, ResponseError], bool]
KeysOf = Callable[[str], tuple[bytes, ...]]

READS_PER_CALL = 512
"""Keys in one read script. While a script runs, the server serves no other client."""


class Script:
    """A Lua text and its digest. Scripts are loaded from folder `lua` of `package`, once per process.

    `keys_of(name)`: the keys of the call, all in one slot.
    """

    def __init__(
        self,
        name: str,
        *,
        prelude: bool = True,
        keys_of: KeysOf = entry_keys,
        package: str = "stampede_guard.stores",
    ) -> None:
        folder = files(package) / "lua"
        text = (folder / f"{name}.lua").read_text("utf-8")
        if prelude:
            text = (folder / "common.lua").read_text("utf-8") + text
        self.name = name
        self.keys_of = keys_of
        self.text = text.encode()
        self.digest = hashlib.sha1(self.text, usedforsecurity=False).hexdigest().encode()

    def pack(self, keys: tuple[bytes, ...], args: list[bytes], *, whole: bool) -> bytes:
        head = [b"EVAL", self.text] if whole else [b"EVALSHA", self.digest]
        return pack_command([*head, b"%d" % len(keys), *keys, *args])


def pack_command(parts: list[bytes]) -> bytes:
    """A command in the RESP protocol."""
    packed = [b"*%d\r\n" % len(parts)]
    packed += [b"$%d\r\n%b\r\n" % (len(part), part) for part in parts]
    return b"".join(packed)


def _nowhere(call: LaneCall, error: ResponseError) -> bool:
    return False


class ScriptCall:
    """One script, one answer. `future` gets the raw reply, or a StoreError."""

    __slots__ = ("_again", "_args", "_keys", "_redirect", "_resend", "_script", "_whole", "future", "sent_at")

    def __init__(
        self,
        script: Script,
        keys: tuple[bytes, ...],
        args: list[bytes],
        future: asyncio.Future[Any],
        resend: Callable[[LaneCall], None],
        redirect: Redirect = _nowhere,
    ) -> None:
        self._script = script
        self._keys = keys
        self._args = args
        self._resend = resend
        self._redirect = redirect
        self._again = self._whole = False
        self.future = future
        self.sent_at = 0.0

    def pack(self) -> bytes:
        return self._script.pack(self._keys, self._args, whole=self._whole)

    def resolve(self, reply: Any) -> None:
        if isinstance(reply, NoScriptError) and not self._whole:
            self._whole = True
            self._resend(self)
        elif isinstance(reply, ResponseError):
            if self._redirect(self, reply):
                return
            if self._again or not may_be_elsewhere(reply):
                self.fail(store_error(reply))
            else:
                # The lane now looks for the current master. Nothing was written.
                self._again = True
                self._resend(self)
        elif not self.future.done():
            self.future.set_result(reply)

    def fail(self, error: StoreError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class CommandCall:
    """Any command, one answer. `future` gets the raw reply, or a StoreError."""

    __slots__ = ("_parts", "future", "sent_at")

    def __init__(self, parts: list[bytes], future: asyncio.Future[Any]) -> None:
        self._parts = parts
        self.future = future
        self.sent_at = 0.0

    def pack(self) -> bytes:
        return pack_command(self._parts)

    def resolve(self, reply: Any) -> None:
        if isinstance(reply, ResponseError):
            self.fail(store_error(reply))
        elif not self.future.done():
            self.future.set_result(reply)

    def fail(self, error: StoreError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


def probe_call(future: asyncio.Future[Any], *, key: bytes = b"") -> CommandCall:
    """Asks whether the server can serve. Redis treats a script without flags as one that writes. A replica refuses it,
    but would answer a PING. The script writes nothing. Any other error also proves that the server answers. A cluster
    that is down reports this only to a command that names a key."""
    keys = [b"1", key] if key else [b"0"]
    return CommandCall([b"EVAL", b"#!lua\nreturn 1", *keys], future)


_READ = Script("read", prelude=False)
_ABOUT_READS = "the read script"
_ONE_KEY = b"*4\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n$1\r\n1\r\n$%%d\r\n%%b\r\n" % _READ.digest


class ReadCall:
    """All reads of one tick, as one script call. Callers may join until it is sent, or fails before it is sent.

    `waiting`: the entries' names, each with one future per caller.

    `on_closed` is called when no further caller may join.
    """

    __slots__ = ("_on_closed", "_redirect", "_resend", "_whole", "sent_at", "waiting")

    def __init__(
        self,
        on_closed: Callable[[ReadCall], None],
        resend: Callable[[LaneCall], None],
        redirect: Redirect = _nowhere,
    ) -> None:
        self.waiting: dict[str, list[asyncio.Future[Reading | None]]] = {}
        self._on_closed = on_closed
        self._resend = resend
        self._redirect = redirect
        self._whole = False
        self.sent_at = 0.0

    def pack(self) -> bytes:
        self._on_closed(self)
        keys = tuple(map(value_key, self.waiting))
        if len(keys) == 1 and not self._whole:
            return _ONE_KEY % (len(keys[0]), keys[0])
        return _READ.pack(keys, [], whole=self._whole)

    def resolve(self, reply: Any) -> None:
        if isinstance(reply, NoScriptError) and not self._whole:
            self._whole = True
            self._resend(self)
            return
        if isinstance(reply, ResponseError):
            if not self._redirect(self, reply):
                self.fail(store_error(reply))
            return
        if not isinstance(reply, list) or len(reply) != 2 * len(self.waiting):
            self.fail(malformed(_ABOUT_READS))
            return
        index = 0
        for futures in self.waiting.values():
            try:
                remaining_ms = reply[index + 1]
                if remaining_ms.__class__ is not int:
                    raise TypeError
                reading = parse_value(reply[index], remaining_ms)
            except Exception:
                # A damaged answer fails only its own entry, not the other entries of this tick.
                _fail(futures, malformed(_ABOUT_READS))
                index += 2
                continue
            index += 2
            for future in futures:
                if not future.done():
                    future.set_result(reading)

    def fail(self, error: StoreError) -> None:
        self._on_closed(self)
        for futures in self.waiting.values():
            _fail(futures, error)


def _fail(futures: list[asyncio.Future[Reading | None]], error: StoreError) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
