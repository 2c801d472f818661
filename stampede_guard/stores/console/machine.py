"""One server, as an operator asks it: plain questions, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import NoScriptError, RedisError, ResponseError

from stampede_guard.errors import StoreError, StoreRefused, StoreUnavailable
from stampede_guard.stores.connections.calls import Script
from stampede_guard.stores.connections.lane import disconnect
from stampede_guard.stores.connections.replies import code_of, store_error
from stampede_guard.stores.connections.wire import entry_keys
from stampede_guard.stores.console.looking import HEAD, parse_look
from stampede_guard.stores.console.view import EntryView

__all__ = ["Command", "Machine"]

PATIENCE = 5.0
"""Seconds for connecting and for each answer. It is long because operators look when a server is slow."""
FAILURE_BYTES = 4096
_LOOK = Script("look")

Command = Sequence[str | bytes | int]


class Machine:
    """One server. Commands travel one after the other."""

    def __init__(self, address: str, connection: AbstractConnection, *, patience: float = PATIENCE) -> None:
        self.address = address
        self._connection = connection
        self._patience = patience
        self._turn = asyncio.Lock()

    async def ask(self, *command: str | bytes | int) -> Any:
        """The answer. Raises `StoreUnavailable` or `StoreRefused`."""
        (answer,) = await self.ask_all([command])
        if isinstance(answer, StoreError):
            raise answer
        return answer

    async def ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """All answers, in one round trip. A refusal takes the place of its answer. Raises `StoreUnavailable`."""
        async with self._turn:
            try:
                async with asyncio.timeout(self._patience):
                    return await self._ask_all(commands)
            except TimeoutError:
                await disconnect(self._connection)
                raise StoreUnavailable(f"{self.address} did not answer within {self._patience:g} s") from None
            except (RedisError, OSError) as error:
                await disconnect(self._connection)
                raise store_error(error) from None

    async def _ask_all(self, commands: Sequence[Command]) -> list[Any]:
        if not self._connection.is_connected:
            await self._connection.connect()  # type: ignore[no-untyped-call]
        packed = self._connection.pack_commands(commands)
        await self._connection.send_packed_command(packed, check_health=False)
        answers: list[Any] = []
        for _ in commands:
            try:
                answers.append(await self._connection.read_response(disable_decoding=True))
            except NoScriptError as error:
                answers.append(_NoSuchScript(str(error)))
            except ResponseError as error:
                answers.append(_answer(error))
        return answers

    async def look(self, names: Sequence[str], *, body_bytes: int = 0) -> list[EntryView]:
        """A view of each entry. Each entry is read at its own moment."""
        args = (HEAD + body_bytes, FAILURE_BYTES)
        keys = [entry_keys(name) for name in names]
        answers = await self.ask_all([("EVALSHA", _LOOK.digest, 6, *each, *args) for each in keys])
        if any(isinstance(answer, _NoSuchScript) for answer in answers):
            answers = [await self.ask("EVAL", _LOOK.text, 6, *keys[0], *args)]
            answers += await self.ask_all([("EVALSHA", _LOOK.digest, 6, *each, *args) for each in keys[1:]])
        for answer in answers:
            if isinstance(answer, StoreError):
                raise answer
        return [parse_look(name, answer) for name, answer in zip(names, answers, strict=True)]

    async def aclose(self) -> None:
        await disconnect(self._connection)


def _answer(error: ResponseError) -> StoreError:
    """A redirection counts as an answer: the node was reached, and the keys are on another node."""
    told = store_error(error)
    return StoreRefused(str(told)) if code_of(error) in ("MOVED", "ASK") else told


class _NoSuchScript(StoreRefused):
    """The server does not know the script."""
