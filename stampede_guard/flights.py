"""The flights that are under way in one event loop: by place, and by the entry that they are for."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from stampede_guard.core.scripts import Message

if TYPE_CHECKING:
    from stampede_guard.flight import Flight

__all__ = ["Flights", "bypassed_name"]


def bypassed_name(name: str) -> str:
    """Flights that do without the store are apart from those that ask it: the mode may change while both are open.

    A caller in mode `bypass` would wait for the store in the flight of one in mode `on`; and a caller in mode `on`
    would be served, in the other's flight, a value from before an invalidation that another process has made.
    """
    return f"bypassed {name}"


class Flights(dict[str, "Flight"]):
    """By place, which is the entry's name for the one flight that callers find.

    Others of the same entry fly apart, each for a single caller, and nobody finds them. But what is said of the entry
    concerns them, too.
    """

    def __init__(self) -> None:
        self.late: set[str] = set()
        """Entries whose next flight is for a caller that has waited for the store in vain."""
        self.unkept: set[str] = set()
        """Values that the store would not keep, between its answers and what is made of those."""
        self._apart: dict[str, dict[str, Flight]] = {}
        """By name, then by place: thousands may fly apart, and each lands by itself."""

    def add(self, flight: Flight) -> None:
        self[flight.place] = flight
        if flight.place != flight.name:
            self._apart.setdefault(flight.name, {})[flight.place] = flight

    def set_apart(self, flight: Flight) -> None:
        """It goes on, and callers find it no more."""
        self.forget(flight)
        flight.place = f"{flight.name}\0{flight.id}"
        self.add(flight)

    def forget(self, flight: Flight) -> None:
        if self.get(flight.place) is flight:
            del self[flight.place]
            if flight.place != flight.name:
                del self._apart[flight.name][flight.place]
                if not self._apart[flight.name]:
                    del self._apart[flight.name]

    def of(self, name: str) -> list[Flight]:
        """All flights of an entry, those that have waited longest first."""
        found = self.get(name)
        apart = self._apart.get(name, {}).values()
        return list(apart) if found is None else [found, *apart]

    def concerned(self, name: str, message: Message) -> list[Flight]:
        """Whom to tell of it. That there is something to ask for again is told to two of those that do not compute.

        What has become free is one place. The second of them finds it taken, and so is told of the next one; the others
        look for themselves, every `poll_interval`. Were all told, a hundred would ask for each place.
        """
        if message.kind != "again" or name not in self._apart:
            return self.of(name)
        found = self.get(name)
        if found is None and len(self._apart[name]) == 1:
            return self.of(name)
        known = itertools.chain([found] if found is not None else [], self._apart[name].values())
        return list(itertools.islice((flight for flight in known if not flight.computing), 2))
