"""Which master of a cluster holds which slot, from the answer to CLUSTER SLOTS."""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Callable, Iterable
from typing import Any

from stampede_guard.stores.connections.wire import name_bytes

__all__ = ["SLOTS", "Address", "Remap", "SlotMap", "parse_slots", "slot_of"]

SLOTS = 16384

Address = tuple[str, int]
Remap = Callable[[Address], Address]


def slot_of(name: str) -> int:
    """The slot of all keys of an entry. It depends on their hash tag, up to its first closing brace.

    Source: "Redis Cluster Specification", Hash tags.
    """
    tag = name_bytes(name)
    end = tag.find(b"}")
    if not tag or end == 0:
        raise ValueError("an entry's name may not be empty or begin with }: its keys would have no hash tag")
    return crc_hqx(tag if end < 0 else tag[:end], 0) % SLOTS


class SlotMap:
    """A holder per slot, or None if no master serves the slot. `move` records a redirection."""

    __slots__ = ("_holders", "masters")

    def __init__(self, ranges: Iterable[tuple[int, int, Address]]) -> None:
        self._holders: list[Address | None] = [None] * SLOTS
        self.masters: set[Address] = set()
        for first, last, address in ranges:
            self._holders[first : last + 1] = [address] * (last + 1 - first)
            self.masters.add(address)

    @property
    def complete(self) -> bool:
        return None not in self._holders

    def holder(self, slot: int) -> Address | None:
        return self._holders[slot]

    def move(self, slot: int, address: Address) -> None:
        self._holders[slot] = address
        self.masters.add(address)


def parse_slots(reply: Any, *, asked: Address, remap: Remap | None = None) -> SlotMap:
    """`asked` is the node that answered. A node that does not know its own host means itself.

    Raises `ValueError` for an answer of another shape.
    """
    ranges: list[tuple[int, int, Address]] = []
    try:
        for first, last, master, *_ in reply:
            host, port = master[0], int(master[1])
            if not isinstance(master, list) or not isinstance(host, bytes | str | None):
                raise ValueError
            text = host.decode() if isinstance(host, bytes) else host or ""
            if text == "?":
                continue  # it has no name yet
            address = (text or asked[0], port or asked[1])
            if not 0 <= first <= last < SLOTS or not 0 < address[1] < 65536:
                raise ValueError
            ranges.append((first, last, remap(address) if remap is not None else address))
    except Exception:
        # Includes errors of the user's `address_remap`: they would end the search for the cluster.
        raise ValueError("CLUSTER SLOTS gave an answer of an unknown shape") from None
    return SlotMap(ranges)
