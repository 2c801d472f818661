"""The RESP protocol as a proxy sees it: commands cut out of a stream of bytes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Command", "CommandCutter"]


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its parts, and the very bytes that were sent."""

    parts: tuple[bytes, ...]
    raw: bytes

    @property
    def name(self) -> bytes:
        return self.parts[0].upper()


class CommandCutter:
    """Feed it bytes as they come; it returns the commands that are complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Command]:
        self._buffer += data
        commands = []
        while (end := self._end_of_first()) is not None:
            parts, size = end
            commands.append(Command(parts, bytes(self._buffer[:size])))
            del self._buffer[:size]
        return commands

    def _end_of_first(self) -> tuple[tuple[bytes, ...], int] | None:
        at = self._line(0)
        if at is None:
            return None
        count, place = at
        parts = []
        for _ in range(count):
            at = self._line(place)
            if at is None:
                return None
            size, place = at
            if len(self._buffer) < place + size + 2:
                return None
            parts.append(bytes(self._buffer[place : place + size]))
            place += size + 2
        return tuple(parts), place

    def _line(self, place: int) -> tuple[int, int] | None:
        """The number behind the `*` or `$` at `place`, and where the next line begins."""
        end = self._buffer.find(b"\r\n", place)
        if end < 0:
            return None
        return int(self._buffer[place + 1 : end]), end + 2
