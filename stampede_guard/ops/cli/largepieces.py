"""The pieces of large responses, as one line for each response. A response of 500 MB has 2,000 of them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from stampede_guard.errors import Misuse, StoreError
from stampede_guard.http.pieces.layout import nonce_of_piece
from stampede_guard.stores.console.view import EntryView
from stampede_guard.values.keys.explained import explain_name

__all__ = ["FoundPieces", "PieceGroup"]

MOST = 10_000
"""Pieces that one command looks at."""
AT_ONCE = 200
_HEAD = 16 * 1024
"""Bytes of a stored response in which the name of its pieces is searched: it has no body of its own."""

_NONCE = re.compile(rb"(?=([0-9a-f]{32}))")
"""At every place of a body. To search for each nonce by itself would take minutes for thousands of them."""

Look = Callable[[Sequence[str], int], Awaitable[Iterable[EntryView]]]
"""`look(names, bytes of the values)`."""


@dataclass(frozen=True, slots=True)
class PieceGroup:
    """`of`: the name of the response. None if it is not among the listed ones, or cannot be read, because it is
    encrypted.
    """

    of: str | None
    views: tuple[EntryView, ...]

    @property
    def size(self) -> int:
        return sum(view.value.size for view in self.views if view.value is not None)

    @property
    def left(self) -> float | None:
        """Seconds until the first of them is gone."""
        return min((view.value.left for view in self.views if view.value and view.value.left), default=None)

    @property
    def waiters(self) -> int:
        return sum(view.waiters for view in self.views)

    @property
    def written(self) -> EntryView | None:
        """The piece that is being made now."""
        return next((view for view in self.views if view.lease is not None), None)

    def as_json(self) -> dict[str, Any]:
        return {
            "of": self.of,
            "count": len(self.views),
            "bytes": self.size,
            "left": self.left,
            "writing": self.written is not None,
            "waiters": self.waiters,
        }


class FoundPieces:
    """Takes the names of pieces out of the names of a namespace. `more`: there are more than one command looks at."""

    def __init__(self, namespace: str) -> None:
        self.more = False
        self._namespace = namespace
        self._room = MOST
        self._names: dict[str, list[str]] = {}

    def take(self, name: str) -> bool:
        """Whether this is the name of a piece."""
        nonce = nonce_of_piece(name, self._namespace)
        if nonce is None:
            return False
        if self._room:
            self._room -= 1
            self._names.setdefault(nonce, []).append(name)
        else:
            self.more = True
        return True

    async def groups(self, look: Look, listed: Sequence[str]) -> list[PieceGroup]:
        """`listed`: the names of the entries among which the responses are searched."""
        if not self._names:
            return []
        found: dict[str, EntryView] = {}
        async for view in _seen(look, [name for names in self._names.values() for name in names], 0):
            if view.value is not None or view.lease is not None:
                found[view.name] = view
        owners = await self._owners(look, [name for name in listed if self._is_response(name)])
        groups = [
            PieceGroup(owners.get(nonce), tuple(found[name] for name in names if name in found))
            for nonce, names in self._names.items()
        ]
        return [group for group in groups if group.views]

    async def _owners(self, look: Look, responses: list[str]) -> dict[str, str]:
        wanted = {nonce.encode(): nonce for nonce in self._names}
        owners: dict[str, str] = {}
        async for view in _seen(look, responses, _HEAD):
            body = view.value.body if view.value is not None else b""
            owners |= {wanted[text]: view.name for text in wanted.keys() & set(_NONCE.findall(body))}
        return owners

    def _is_response(self, name: str) -> bool:
        try:
            return explain_name(name, namespace=self._namespace).kind == "url"
        except Misuse:
            return False


async def _seen(look: Look, names: list[str], body_bytes: int) -> AsyncIterator[EntryView]:
    """Without those whose server does not answer."""
    for start in range(0, len(names), AT_ONCE):
        with contextlib.suppress(StoreError):
            for view in await look(names[start : start + AT_ONCE], body_bytes):
                yield view
